"""Signals and undoing: SIGTERM and SIGHUP unwind as Ctrl-C does, and none of them interrupts an undo."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

_ENDING = (signal.SIGTERM, signal.SIGHUP)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    """Unwind the stack; the exit code is the shell's for a process that this signal ended."""
    raise SystemExit(128 + number)


@contextlib.contextmanager
def unwinding() -> Iterator[None]:
    """While inside, SIGTERM and SIGHUP raise `SystemExit` in the main thread, so that `finally` blocks run.

    Elsewhere than in the main thread Python delivers no signals, and this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _leave) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def is_interrupt(error: BaseException | None) -> bool:
    """Whether `error` is one, or was raised while one unwound the stack, as by a library that was cut short."""
    return error is not None and (isinstance(error, KeyboardInterrupt | SystemExit) or is_interrupt(error.__context__))


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """While inside, SIGINT, SIGTERM and SIGHUP are noted; the first is delivered on leaving."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted: list[int] = []
    before = {
        number: signal.signal(number, lambda received, _frame: noted.append(received))
        for number in (signal.SIGINT, *_ENDING)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if noted:
            signal.raise_signal(noted[0])
