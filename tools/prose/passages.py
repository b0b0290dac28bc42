"""The passages of a Markdown text, with their lines.

Passages are headings, paragraphs, list items and table cells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from markdown_it import MarkdownIt

_MARKDOWN = MarkdownIt("commonmark").enable("table")

_CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_LINK_TARGET = re.compile(r"\](\([^()]*(\([^()]*\)[^()]*)*\)|\[[^\]]*\])")
_TAG = re.compile(r"</?[a-z][^<>]*>|<!--.*?-->", re.DOTALL)
_MARKUP = re.compile(r"[*\[\]!]|~~")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of prose, with its path and first line.

    `text` has one line break for each line of the file. `place` says where it is if the line does not.
    Only the words of table cells are checked (`is_cell`).
    """

    path: str
    line: int
    text: str
    place: str = ""
    is_cell: bool = False


def markdown_passages(path: str, text: str) -> Iterator[Passage]:
    """The passages of a file. Code blocks and HTML have none."""
    in_table = False
    for token in _MARKDOWN.parse(text):
        if token.type in ("table_open", "table_close"):
            in_table = token.type == "table_open"
        elif token.type == "inline" and token.map is not None:
            yield Passage(path, token.map[0] + 1, token.content, is_cell=in_table)


def without_markup(text: str) -> str:
    """Return a text of the same length, without markup.

    Code becomes one capitalized word, and links become their text.
    """
    text = _CODE.sub(lambda found: "C" + "o" * (len(found[0]) - 1), text)
    text = _LINK_TARGET.sub(_blank, text)
    return _MARKUP.sub(_blank, _TAG.sub(_blank, text))


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])
