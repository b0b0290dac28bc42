"""The clock of a run: the wall clock as it was once, carried on by CLOCK_MONOTONIC.

Ebbtide's own processes take every time that a record has from this clock, so their times never go back, whatever
happens to the wall clock. All processes of a run share one base, which `use_base` hands on. Kafka writes the wall
clock's time. `wall_lead_ns` says how far that is ahead, and the record keeps it (`ebbtide.record.clock`).
"""

from __future__ import annotations

import time

_TRIES = 5
_PROMPT_NS = 50_000
"""Within this time both clocks were surely read without a break in between."""
STEP_NS = 1_000_000
"""A clock whose lead changed by less was not set: two clocks cannot be read at the same moment."""


def _measured_base() -> int:
    """Return how far the wall clock is ahead of CLOCK_MONOTONIC."""
    best_ns, found = None, 0
    for _ in range(_TRIES):
        before = time.monotonic_ns()
        wall = time.time_ns()
        took = time.monotonic_ns() - before
        if best_ns is None or took < best_ns:
            best_ns, found = took, wall - before - took // 2
        if took < _PROMPT_NS:
            break
    return found


class _Base:
    """What this process adds to CLOCK_MONOTONIC, and the leads of the wall clock that it saw."""

    def __init__(self) -> None:
        self.base_ns = _measured_base()
        self.lead_ns = self.earlier_lead_ns = 0


_base = _Base()


def now_ns() -> int:
    """Return the time of the run, in nanoseconds since the epoch."""
    return time.monotonic_ns() + _base.base_ns


def base_ns() -> int:
    """Return the base of this process, for `use_base` of another process on this host."""
    return _base.base_ns


def use_base(base_ns: int) -> None:
    """Take over the base of the process that started this one."""
    _base.base_ns = base_ns
    _base.lead_ns = _base.earlier_lead_ns = wall_lead_ns()


def wall_lead_ns() -> int:
    """Return how far the wall clock is ahead of the run's clock now; 0 until it is stepped."""
    return _measured_base() - _base.base_ns


def time_of_wall(wall_ns: int) -> int:
    """Return the run's time of a wall clock's time that another program on this host noted a moment ago.

    The wall clock may have been stepped since. Then the step is undone for a time that would be in the future.
    """
    lead = wall_lead_ns()
    if abs(lead - _base.lead_ns) >= STEP_NS:
        _base.earlier_lead_ns, _base.lead_ns = _base.lead_ns, lead
    found = [wall_ns - one for one in (_base.lead_ns, _base.earlier_lead_ns)]
    now = now_ns()
    return min(found, key=lambda at: abs(now - at))
