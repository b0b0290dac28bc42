"""What recorded runs of the catalogue lost, and how long they took.

`measured.json` is a link to docs/measured.json; a wheel holds the file itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from statistics import median
from typing import Protocol

import msgspec


class MeasuredRow(msgspec.Struct, frozen=True):
    """One row of docs/measured.json, as far as it is needed; `took_s` is a median."""

    scenario: str
    target: str
    runtime: str
    lost: tuple[str, ...]
    took_s: float


@cache
def measured_rows() -> tuple[MeasuredRow, ...]:
    """Return all rows."""
    content = (files("ebbtide.scenario") / "measured.json").read_bytes()
    return tuple(msgspec.json.decode(content, type=tuple[MeasuredRow, ...]))


class _Timed(Protocol):
    @property
    def runtime(self) -> str: ...
    @property
    def took_s(self) -> float: ...


def usual_s(rows: Sequence[_Timed]) -> float | None:
    """Return how long a run of a scenario usually takes, without its verdict; None: there are no rows.

    This is the median of its rows, of those on the local runtime if there are any.
    """
    local = [row for row in rows if row.runtime == "local"]
    return median(row.took_s for row in local or rows) if rows else None


def took_in_words(took_s: float | None) -> str:
    """Return a time of `usual_s` in seconds or minutes; `-` if it was not measured."""
    if took_s is None:
        return "-"
    return f"{took_s:.0f} s" if took_s < 99.5 else f"{took_s / 60:.0f} min"
