"""Prints JSON, and tables that fit into the width of the output."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ebbtide.folding import fold_words, shown_width
from ebbtide.streams import print_verbatim

_BELOW = " " * 4
_GAP = 2
"""Columns between two cells."""


def print_json(value: Any, *, pretty: bool = False) -> None:
    """Print a struct as one line of JSON to stdout; with `pretty` as indented lines."""
    encoded = msgspec.json.encode(value)
    print_verbatim((msgspec.json.format(encoded) if pretty else encoded).decode())


def print_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    whole: int = 0,
    least: Mapping[int, int] | None = None,
    optional: Sequence[int] = (),
) -> list[str]:
    """Print `rows` under `headers` to stdout, and return the headers of columns left out.

    A cell is one line of plain text. If the table is too wide, cells are folded between words, but not those of the
    first `whole` columns. With `least` only its columns are folded, down to these widths. If that is not enough, the
    columns `optional` are left out, in this order. Then, or if a word such as a path does not fit, the last column gets
    lines of its own.
    """
    columns = list(zip(headers, *rows, strict=True))
    wanted = [max(map(len, column)) for column in columns]
    words = [max(len(word) for cell in column for word in cell.split(" ")) for column in columns]
    floors = [
        min(least.get(at, wide), wide) if least is not None else wide if at < whole else word
        for at, (wide, word) in enumerate(zip(wanted, words, strict=True))
    ]
    width = shown_width()
    shown = list(range(len(columns)))
    for at in optional:
        if _table_width([floors[one] for one in shown]) <= width:
            break
        shown.remove(at)
    lines = [[line[at] for at in shown] for line in (headers, *rows)]
    wanted, floors = [wanted[at] for at in shown], [floors[at] for at in shown]
    if _table_width(floors) > width and len(shown) > 1:
        _print_with_lines_below(lines, _fitted(wanted[:-1], floors[:-1], width), width)
    else:
        _print_aligned(lines, _fitted(wanted, floors, width))
    return [header for at, header in enumerate(headers) if at not in shown]


def _print_aligned(lines: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    """Print the header and the rows; on a terminal there is a rule between them."""
    for number, cells in enumerate(lines):
        _print_row(cells, widths)
        if number == 0 and sys.stdout.isatty():
            print(_aligned(["\u2500" * width for width in widths], widths))


def _print_row(cells: Sequence[str], widths: Sequence[int]) -> None:
    folded = [fold_words(cell, width, cuts=False) for cell, width in zip(cells, widths, strict=True)]
    for at in range(max(map(len, folded))):
        print(_aligned([cell[at] if at < len(cell) else "" for cell in folded], widths))


def _print_with_lines_below(lines: Sequence[Sequence[str]], widths: Sequence[int], width: int) -> None:
    """Print the last cell of each row on lines of its own, below the others; the header is one line if it fits."""
    if len(header := _aligned(lines[0], [*widths, 0])) <= width:
        print(header)
        lines = lines[1:]
    for *first, last in lines:
        _print_row(first, widths)
        for line in fold_words(last, width - len(_BELOW), cuts=False):
            print(f"{_BELOW}{line}".rstrip())


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return cells without rules between them as one line."""
    return (" " * _GAP).join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _table_width(widths: Sequence[int]) -> int:
    """Return the width of a table with columns of these widths."""
    return sum(widths) + _GAP * (len(widths) - 1)


def _fitted(wanted: Sequence[int], floors: Sequence[int], width: int) -> list[int]:
    """Return the width of each column: its floor, and an equal share of what the others leave."""
    widths = list(floors)
    left = max(0, width - _table_width(widths))
    by_need = sorted(range(len(widths)), key=lambda at: wanted[at] - floors[at])
    for done, at in enumerate(by_need):
        more = min(wanted[at] - floors[at], left // (len(widths) - done))
        widths[at] += more
        left -= more
    return widths


def print_warning(text: str) -> None:
    """Print a line to stdout that a person must not miss: in red on a terminal."""
    if not sys.stdout.isatty():
        print(text)
        return
    from ebbtide.shown_console import PlainTextConsole

    PlainTextConsole().print(text, style="bold red")
