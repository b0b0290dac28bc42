"""What recorded runs of the catalogue lost, and how long they took.

`measured.json` is a link to docs/measured.json; a wheel holds the file itself.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

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
