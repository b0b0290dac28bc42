"""Chooses the compiler of a session's Java process: how much it may spend on code that then runs faster."""

from __future__ import annotations

QUICK = "-XX:TieredStopAtLevel=1"
"""The flag for the quick compiler alone, which suits a few records."""

_LATE = " ".join(
    f"-XX:Tier4{name}Threshold={at}"
    for name, at in (("Invocation", 50_000), ("MinInvocation", 6_000), ("Compile", 150_000), ("BackEdge", 400_000))
)
"""Flags for both compilers, of which the slow one begins at ten times its defaults.

It compiles the loops over rows, and only the planning code that dozens of records share.
"""

_QUICK_ROWS_MAX = 60_000_000
"""From so many rows on, the slow compiler's code is worth its compile time.

Spark gets only the rows that the package rows chooses, mostly few of them.
"""


def suits_quick(rows: int, *, many: bool) -> bool:
    """Return whether the quick compiler suits a session of about so many rows; `many`: it judges dozens of records."""
    return rows <= _QUICK_ROWS_MAX and not many


def compiler_flags(rows: int, *, many: bool) -> str:
    """Return the flags of the compiler that suits such a session."""
    return QUICK if suits_quick(rows, many=many) else _LATE
