"""Makes SIGTERM and SIGHUP unwind the stack, and protects clean-up from signals.

The stack unwinds as Ctrl-C makes it do.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

_TERMINATING = (signal.SIGTERM, signal.SIGHUP)


def _exit_on_signal(number: int, _frame: FrameType | None) -> NoReturn:
    """Unwind the stack; the exit code is the one a shell reports for this signal."""
    raise SystemExit(128 + number)


@contextlib.contextmanager
def unwind_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise `SystemExit` in the block.

    `finally` blocks therefore run. Does nothing outside the main thread, because Python delivers
    signals only there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _exit_on_signal) for number in _TERMINATING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def is_interrupt(error: BaseException | None) -> bool:
    """Whether `error` is an interrupt, or was raised while one unwound the stack.

    A library that is cut short may raise its own error.
    """
    return error is not None and (isinstance(error, KeyboardInterrupt | SystemExit) or is_interrupt(error.__context__))


@contextlib.contextmanager
def defer_signals() -> Iterator[None]:
    """Hold back SIGINT, SIGTERM and SIGHUP during the block.

    Deliver the first one at its end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = {
        number: signal.signal(number, lambda signum, _frame: received.append(signum))
        for number in (signal.SIGINT, *_TERMINATING)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])
