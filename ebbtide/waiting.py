"""Waits for a condition with a deadline, and reports the last state that it saw.

No other module calls `time.sleep`. A wait that expires raises `WaitExpired`. Its message names the condition, the
time limit and the last state, so that an inconclusive run explains itself.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, NoReturn, TypeVar

from ebbtide.errors import HarnessError

if TYPE_CHECKING:
    from socket import socket

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
    """Call `condition` every `poll_s` seconds until it returns a truthy value.

    Return that value.

    Calls it at least once. Raises `WaitExpired` after `timeout_s`; an exception of `condition` passes through at once.
    """
    # Imported here: tenacity imports asyncio, which a client process that never waits does not need.
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
    """Sleep for a duration that belongs to the experiment, such as an `after` trigger."""
    time.sleep(max(0.0, duration_s))


def is_readable(file: int | IO[bytes] | socket, wait_s: float = 0.0) -> bool:
    """Whether a file has something to read, or has ended; waits at most `wait_s` for that.

    Unlike `select.select`, it takes descriptors of any size.
    """
    ready = select.poll()
    ready.register(file, select.POLLIN)
    return bool(ready.poll(wait_s * 1000))
