"""Prints JSON, and tables: drawn on a terminal, aligned text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

_BETWEEN = 3
"""Columns between two cells: a vertical rule, and a space on either side."""
_EDGES = 2
_BELOW = " " * 4
_GAP = 2
"""Columns between two cells without a rule."""


def print_json(value: Any) -> None:
    """Print a struct as one line of JSON to stdout."""
    print(msgspec.json.encode(value).decode(), flush=True)


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, whole: int = 0) -> None:
    """Print `rows` under `headers` to stdout; a cell is one line of plain text.

    With `whole` > 0 the first `whole` columns are never cut or folded. If the terminal is too narrow for the others,
    the last of them are left out. Without, cells are folded between words. If a word of the last column does not fit
    into it, such as a path, that column gets lines of its own.
    """
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    if sys.stdout.isatty():
        from rich import box
        from rich.table import Table
        from rich.text import Text

        from ebbtide.shown_console import PlainTextConsole

        console = PlainTextConsole()
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        words = [
            max(len(word) for cell in column for word in cell.split(" ")) for column in zip(headers, *rows, strict=True)
        ]
        if not whole and _table_width(words) > console.width:
            _print_with_lines_below(headers, rows, console.width)
            return
        shown = _columns_that_fit(widths, words, whole, console.width) if whole else len(headers)
        for at, header in enumerate(headers[:shown]):
            stiff = bool(whole) and (at < whole or at < shown - 1)
            table.add_column(header, no_wrap=stiff, min_width=widths[at] if stiff else None if whole else words[at])
        for row in rows:
            table.add_row(*map(Text, row[:shown]))
        # A terminal that is narrower than the whole columns wraps the lines itself, so nothing is cut.
        console.print(table, width=max(console.width, _table_width(widths[: max(whole, 1)])), crop=False)
        return
    for line in (headers, *rows):
        print(_aligned(line, widths))


def print_folded_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, folded: Mapping[int, int], optional: Sequence[int] = ()
) -> list[str]:
    """Print `rows` under `headers` to stdout, on a terminal no wider than that, and return the headers left out.

    On a terminal the columns `folded` are broken between words, down to these widths. If that is not enough, the
    columns `optional` are left out, in this order. Elsewhere each row is one line.
    """
    if not sys.stdout.isatty():
        print_table(headers, rows)
        return []
    from rich.table import Table
    from rich.text import Text

    from ebbtide.shown_console import PlainTextConsole

    console = PlainTextConsole()
    columns = dict(enumerate(zip(headers, *rows, strict=True)))
    widths = {at: max(map(len, column)) for at, column in columns.items()}
    left_out: list[int] = []
    for at in optional:
        least = [min(folded.get(one, width), width) for one, width in widths.items() if one not in left_out]
        if sum(least) + _GAP * (len(least) - 1) <= console.width:
            break
        left_out.append(at)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    shown = [at for at in columns if at not in left_out]
    for at in shown:
        least_width = min(folded.get(at, widths[at]), widths[at])
        table.add_column(headers[at], no_wrap=at not in folded, min_width=least_width)
    for row in rows:
        table.add_row(*(Text(row[at]) for at in shown))
    console.print(table, crop=False)
    return [headers[at] for at in left_out]


def _print_with_lines_below(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> None:
    """Print the last column of each row on lines of its own, below the others."""
    from analysis.report.folding import fold_words

    firsts = [list(row[:-1]) for row in (headers, *rows)]
    widths = [max(map(len, column)) for column in zip(*firsts, strict=True)]
    for first, row in zip(firsts, (headers, *rows), strict=True):
        print(_aligned(first, widths))
        for line in fold_words(row[-1], width - len(_BELOW), cuts=False):
            print(f"{_BELOW}{line}".rstrip())


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return cells without rules between them as one line."""
    return (" " * _GAP).join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _table_width(widths: Sequence[int]) -> int:
    """Return the width of a drawn table with columns of these widths."""
    return sum(widths) + _BETWEEN * (len(widths) - 1) + _EDGES


def _columns_that_fit(widths: Sequence[int], words: Sequence[int], whole: int, width: int) -> int:
    """Return how many columns fit, with the last one folded between words.

    The result is at least `whole`.
    """
    return next(
        (
            count
            for count in range(len(widths), whole, -1)
            if _table_width([*widths[: count - 1], words[count - 1]]) <= width
        ),
        whole,
    )


def print_warning(text: str) -> None:
    """Print a line to stdout that a person must not miss: in red on a terminal."""
    if not sys.stdout.isatty():
        print(text)
        return
    from ebbtide.shown_console import PlainTextConsole

    PlainTextConsole().print(text, style="bold red")
