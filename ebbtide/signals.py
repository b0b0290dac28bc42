"""Makes SIGINT, SIGTERM and SIGHUP unwind the stack once, and protects clean-up from further signals.

`interrupt_on_signals` is the way of the command: its handlers stay for as long as the process lives.
`unwind_on_signals` does the same within a block, for a process that is not the command. A signal that comes while
the stack is unwound already is not raised again, so that a second SIGTERM or Ctrl-C cuts no clean-up short. A signal
that comes during an import is raised after it, or in it after 10 s. A signal that the process was started to ignore
(`nohup`, `&` in a script) stays ignored.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals with which users, `timeout`, service managers and closed terminals end a process."""

_UNHANDLED = (signal.SIG_DFL, signal.default_int_handler)
_AGAIN_S = 0.001
"""A signal that came during an import comes again after so long, until the import has ended."""
_IMPORT_MAX_S = 10.0
"""So long a signal waits for the end of an import. It cuts one short that hangs."""
_STILL = "still cleaning up; to end at once: kill -9, then ebbtide clean"


def _interrupter(exit_code: int | None) -> Callable[[int, FrameType | None], None]:
    """Return a handler that raises `SystemExit`, or `KeyboardInterrupt` for Ctrl-C.

    `exit_code` None: the code that a shell reports for the signal.
    """
    first_s = math.inf

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal first_s
        if is_interrupt(sys.exception()):
            _say_still_cleaning()
            return
        first_s = min(first_s, time.monotonic())
        if _is_importing(frame) and time.monotonic() < first_s + _IMPORT_MAX_S:
            signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(number))
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
            return
        first_s = math.inf
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number if exit_code is None else exit_code)

    return interrupt


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a frame belongs to an import, in which compiled code drops what a handler raises."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _say_still_cleaning() -> None:
    """Say so through `sys.stderr`, which goes above a view that stands on the terminal."""
    try:
        sys.stderr.write(f"{_STILL}\n")
        sys.stderr.flush()
    except (AttributeError, OSError, RuntimeError, ValueError):  # it is closed, or this came while it was written to
        with contextlib.suppress(OSError):
            os.write(2, f"{_STILL}\n".encode())


def interrupt_on_signals(exit_code: int) -> None:
    """Let SIGINT, SIGTERM and SIGHUP unwind the stack of this process, for as long as it lives.

    `exit_code` is that of the `SystemExit`. Call it in the main thread.
    """
    for number in ENDING:
        if signal.getsignal(number) in _UNHANDLED:
            signal.signal(number, _interrupter(exit_code))


def deliver_awaited() -> None:
    """Let a signal that came during an import come now, before this process becomes another program.

    Its timer outlives an `execve`, and would kill that program with SIGALRM.
    """
    if signal.setitimer(signal.ITIMER_REAL, 0)[0] and callable(signal.getsignal(signal.SIGALRM)):
        signal.raise_signal(signal.SIGALRM)


def ignore_signals() -> None:
    """Ignore SIGINT, SIGTERM and SIGHUP from now on: the process has its exit code, and ends."""
    for number in (*ENDING, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def unwind_on_signals() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP unwind the stack in the block.

    `finally` blocks therefore run. A signal that has a handler keeps it. Does nothing outside the main thread,
    because Python delivers signals only there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    unhandled = [number for number in ENDING if signal.getsignal(number) in _UNHANDLED]
    before = {number: signal.signal(number, _interrupter(None)) for number in unhandled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def is_interrupt(error: BaseException | None) -> bool:
    """Whether `error` is an interrupt, or was raised while one unwound the stack.

    A library that is cut short may raise its own error.
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            return True
        error = error.__context__
    return False


def exit_code_of(status: int, interrupted: int) -> int:
    """Return the exit code for a `Popen.returncode` of the command, which another process started.

    It is 128 + n if signal n ended it, and `interrupted` for a signal of `ENDING`: the command then had not yet its
    own handlers.
    """
    if -status in ENDING:
        return interrupted
    return status if status >= 0 else 128 - status


@contextlib.contextmanager
def defer_signals() -> Iterator[None]:
    """Hold back SIGINT, SIGTERM and SIGHUP during the block.

    Deliver the first one at its end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = {number: signal.signal(number, lambda signum, _frame: received.append(signum)) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])
