"""What a measurement found, as a file of bench/results/: data, with the commit, the date and the host."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ebbtide.record.files import write_atomically

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"


class Measured(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table: each row has a cell for each column.

    `title` is the question that it answers. `about` says how it was measured, in Markdown. `command` makes it again.
    A table whose rows are of several commits or days has them in columns, and says so in `commit` or `date`.
    """

    title: str
    about: str
    command: str
    commit: str
    date: str
    host: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.columns)]
        if wrong:
            raise ValueError(f"{self.title}: {len(self.columns)} columns, and a row of {len(wrong[0])} cells")


def read_measured(path: Path) -> Measured:
    """Return what a file holds."""
    return msgspec.json.decode(path.read_bytes(), type=Measured)


def write_measured(path: Path, measured: Measured) -> None:
    """Write a file."""
    write_atomically(path, msgspec.json.format(msgspec.json.encode(measured), indent=1) + b"\n")


def table(measured: Measured) -> str:
    """Return the rows as a Markdown table."""
    lines = [f"| {' | '.join(cells)} |" for cells in (measured.columns, *measured.rows)]
    return "\n".join([lines[0], "|" + "---|" * len(measured.columns), *lines[1:]])
