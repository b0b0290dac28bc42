"""Tables for a person: drawn on a terminal, aligned text anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print `rows` under `headers` to stdout; a cell is one line of plain text."""
    if sys.stdout.isatty():
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*headers, box=box.SIMPLE_HEAD, pad_edge=False)
        for row in rows:
            table.add_row(*map(Text, row))
        Console().print(table)
        return
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    for line in (headers, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
