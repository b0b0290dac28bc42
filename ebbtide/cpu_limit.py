"""Ends code that goes on for ever, such as a rule of the user with an endless loop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class EndlessError(Exception):
    """Code took more CPU time than it may."""


@contextmanager
def limited_cpu(seconds: float) -> Iterator[None]:
    """Raise `EndlessError` in the block once this process has used so many seconds of CPU in it.

    Within another such block, the limit of the outer one counts. Threads other than the main thread have no limit.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getitimer(signal.ITIMER_PROF)[0]:
        yield
        return

    def give_up(*_: object) -> None:
        raise EndlessError(f"it has not ended after {seconds:g} s of CPU")

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
