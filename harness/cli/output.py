"""Tables for a person: drawn on a terminal, aligned text anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_BETWEEN = 3
"""A blank on either side of the place of a vertical rule."""
_EDGES = 2


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, whole: int = 0) -> None:
    """Print `rows` under `headers` to stdout; a cell is one line of plain text.

    `whole` > 0: so many first columns are never cut or folded, and of the others those at the end are left out
    where the terminal is too narrow for them.
    """
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    if sys.stdout.isatty():
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        console = Console()
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        words = [
            max(len(word) for cell in column for word in cell.split(" ")) for column in zip(headers, *rows, strict=True)
        ]
        shown = _fitting(widths, words, whole, console.width) if whole else len(headers)
        for at, header in enumerate(headers[:shown]):
            stiff = at < whole or at < shown - 1
            table.add_column(header, no_wrap=bool(whole) and stiff, min_width=widths[at] if whole and stiff else None)
        for row in rows:
            table.add_row(*map(Text, row[:shown]))
        # A terminal narrower than the whole columns wraps the lines itself: nothing is cut.
        console.print(table, width=max(console.width, _drawn(widths[: max(whole, 1)])), crop=False)
        return
    for line in (headers, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _drawn(widths: Sequence[int]) -> int:
    """The width of a table drawn with columns of these widths."""
    return sum(widths) + _BETWEEN * (len(widths) - 1) + _EDGES


def _fitting(widths: Sequence[int], words: Sequence[int], whole: int, width: int) -> int:
    """How many of the columns fit side by side, the last of them folded between words; the first `whole` stay."""
    return next(
        (count for count in range(len(widths), whole, -1) if _drawn([*widths[: count - 1], words[count - 1]]) <= width),
        whole,
    )
