"""Finds sentences that are too long, and words that Ebbtide does not use."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.prose.passages import Passage, without_markup

MAX_WORDS = 25
"""The most words of a sentence; code in backticks counts as one word."""
_WORDS = Path(__file__).with_name("words.toml")

_SENTENCE_END = re.compile(r"(?<!\.)[.!?][\"')]*(?=\s|$)")
_ABBREVIATION = re.compile(r"(?:\be\.g|\bi\.e|\betc|\bvs|\bcf)\.$")
_WORD = re.compile(r"\S*\w\S*")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to rewrite."""

    path: str
    line: int
    place: str
    what: str

    def __str__(self) -> str:
        place = f" {self.place}:" if self.place else ""
        return f"{self.path}:{self.line}:{place} {self.what}"


@dataclass(frozen=True, slots=True)
class Word:
    """A word that Ebbtide does not use: where it is found, and what to say instead."""

    pattern: re.Pattern[str]
    say: str


def read_words() -> list[Word]:
    """The words of words.toml."""
    return [
        Word(re.compile(rf"(?<![\w-])(?:{one.get('pattern', re.escape(one['not']))})\b", re.IGNORECASE), one["say"])
        for one in tomllib.loads(_WORDS.read_text())["words"]
    ]


def findings(passage: Passage, words: Sequence[Word]) -> Iterator[Finding]:
    """Each long sentence and each word of a passage."""
    text = without_markup(passage.text)
    for start, end in () if passage.is_cell else _sentences(text):
        count = len(_WORD.findall(text[start:end]))
        if count > MAX_WORDS:
            opening = " ".join(passage.text[start:end].split()[:6])
            yield _finding(passage, start, f'{count} words in a sentence, at most {MAX_WORDS}: "{opening} ..."')
    flat = re.sub(r"\s", " ", text)
    for word in words:
        for found in word.pattern.finditer(flat):
            yield _finding(passage, found.start(), f'"{found[0]}": say {word.say}')


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """Where each sentence begins and ends."""
    start = 0
    for end in _SENTENCE_END.finditer(text):
        if not _ABBREVIATION.search(text[: end.start() + 1]):
            yield start + _spaces(text[start:]), end.end()
            start = end.end()
    if text[start:].strip():
        yield start + _spaces(text[start:]), len(text)


def _spaces(text: str) -> int:
    return len(text) - len(text.lstrip())


def _finding(passage: Passage, offset: int, what: str) -> Finding:
    return Finding(passage.path, passage.line + passage.text.count("\n", 0, offset), passage.place, what)
