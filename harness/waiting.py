"""The one place that sleeps: waits for a condition with a deadline, and says what it last saw.

No other module calls `time.sleep`. A wait that expires raises `WaitExpired`, whose message names what was
awaited, for how long, and what was seen last, so that an inconclusive run explains itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from harness.errors import HarnessError

T = TypeVar("T")


class WaitExpired(HarnessError):
    """A deadline passed before its condition held."""

    def __init__(self, awaited: str, timeout_s: float, last_seen: str) -> None:
        self.awaited = awaited
        self.timeout_s = timeout_s
        self.last_seen = last_seen
        super().__init__(f"waited {timeout_s:g} s for {awaited}; last seen: {last_seen}")


def wait_until(
    condition: Callable[[], T | None],
    *,
    awaited: str,
    timeout_s: float,
    last_seen: Callable[[], str] = lambda: "nothing",
    poll_s: float = 0.02,
) -> T:
    """Return the first truthy value of `condition`, asked every `poll_s` seconds.

    Raises `WaitExpired` after `timeout_s`; `condition` is asked once more at the deadline.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise WaitExpired(awaited, timeout_s, last_seen())
        time.sleep(poll_s)


def pause(duration_s: float) -> None:
    """Sleep for a duration that is itself the experiment (an `after` trigger, a producer's rate)."""
    time.sleep(max(0.0, duration_s))
