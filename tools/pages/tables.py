"""Replaces the rows of a generated table in a page that people write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_MARK = "<!-- Made by `python -m tools.pages.{program}` from here to the next empty line; do not edit. -->\n\n"


def with_table(text: str, program: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a page with new rows in the table that has these columns and the mark of this program."""
    head = f"{_MARK.format(program=program)}{_line(columns)}|{'---|' * len(columns)}\n"
    before, found, rest = text.partition(head)
    assert found, f"no page of docs/ has the mark of {program} and the table {_line(columns)}"
    _, end, after = rest.partition("\n\n")
    return before + found + "".join(map(_line, rows)) + (f"\n{after}" if end else "")


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"
