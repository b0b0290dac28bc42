"""The one place that sleeps: waits for a condition with a deadline, and says what it last saw.

No other module calls `time.sleep`. A wait that expires raises `WaitExpired`, whose message names what was
awaited, for how long, and what was seen last, so that an inconclusive run explains itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NoReturn, TypeVar

from ebbtide.errors import HarnessError

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

    Raises `WaitExpired` after `timeout_s`, and whatever `condition` raises at once. It is asked at least once.
    """
    # Imported here: tenacity brings asyncio along, which a client process that never waits can do without.
    from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_delay, wait_fixed

    def expire(_state: RetryCallState) -> NoReturn:
        raise WaitExpired(awaited, timeout_s, last_seen())

    retrying = Retrying(
        retry=retry_if_result(lambda value: not value),
        stop=stop_after_delay(timeout_s),
        wait=wait_fixed(poll_s),
        retry_error_callback=expire,
    )
    value = retrying(condition)
    assert value is not None
    return value


def pause(duration_s: float) -> None:
    """Sleep for a duration that is itself the experiment (an `after` trigger, a producer's rate)."""
    time.sleep(max(0.0, duration_s))
