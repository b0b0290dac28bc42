"""Chooses the compiler of a session's Java process: how much it may spend on code that then runs faster."""

from __future__ import annotations

QUICK = "-XX:TieredStopAtLevel=1"
"""The flag for the quick compiler alone, which suits a few records."""

_LATE = " ".join(
    f"-XX:Tier4{name}Threshold={at}"
    for name, at in (("Invocation", 50_000), ("MinInvocation", 6_000), ("Compile", 150_000), ("BackEdge", 400_000))
)
"""Flags for both compilers, of which the slow one begins at ten times its defaults.

It then compiles the loops over rows, and of planning only what dozens of records have in common.
"""

_QUICK_ROWS_MAX = 60_000_000
"""From so many rows on, the slow compiler's code is worth its compile time.

Spark gets sums of most rows (the module row_pass), one for some twenty rows.
"""


def suits_quick(rows: int) -> bool:
    """Return whether a session with the quick compiler suits so many rows."""
    return rows <= _QUICK_ROWS_MAX


def compiler(rows: int, *, lasts: bool) -> str:
    """Return the flags for a session of about so many rows; `lasts`: it judges dozens of records."""
    return QUICK if suits_quick(rows) and not lasts else _LATE
