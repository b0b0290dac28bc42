"""Words that people bring from other tools: what each is called here, or what comes closest.

The table is data, `absent_words.toml`. It is asked before similar letters are: `loss` as a key of a step means the loss
of packets, and no misspelt key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

from ebbtide.suggestions import did_you_mean
from ebbtide.untrusted.values import decode_toml

Place = Literal[
    "step",
    "client",
    "group_protocol",
    "file",
    "cluster",
    "topics",
    "producers",
    "consumers",
    "steps",
    "trigger",
    "properties",
    "settings",
    "kafka-python",
]
"""Where a word is typed: a kind of step, the value of a key, a key of a table, a name of Kafka or of a library."""

_SEPARATORS = re.compile(r"[-_.\s]+")
_WORD_MAX = 100


class AbsentWord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of the table: words, where they are typed, and what they are `called` here or what comes `closest`."""

    words: tuple[str, ...]
    at: tuple[Place, ...]
    called: str = ""
    closest: str = ""

    def sentence(self, word: str) -> str:
        """Return what to say to somebody who typed this word."""
        return (
            f"{word} is {self.called} here"
            if self.called
            else f"{word} is not here; what comes closest: {self.closest}"
        )


@cache
def absent_words() -> tuple[AbsentWord, ...]:
    """Return the table."""
    text = (files("ebbtide.scenario") / "absent_words.toml").read_text("utf-8")
    return tuple(msgspec.convert(decode_toml(text)["absent"], tuple[AbsentWord, ...]))


def absent_word(word: str, *places: str) -> str | None:
    """Return the sentence on a word that is typed at one of these places; None for a word that no row has."""
    if len(word) > _WORD_MAX:
        return None
    plain = plain_word(word)
    for row in absent_words():
        if not set(places).isdisjoint(row.at) and any(fnmatchcase(plain, plain_word(one)) for one in row.words):
            return row.sentence(word)
    return None


def hint_on_kind(word: str, known: Iterable[str]) -> str:
    """Return what follows `unknown kind of step` for this word: a sentence, or the known word that was meant, or ""."""
    sentence = absent_word(word, "step")
    return did_you_mean(word, known) if sentence is None else f": {sentence}"


def plain_word(word: str) -> str:
    """Return a word in lower case, with `-` between its parts."""
    return _SEPARATORS.sub("-", word.strip().lower())
