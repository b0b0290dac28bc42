"""Ends a process when its parent dies: the kernel sends it SIGKILL (PR_SET_PDEATHSIG).

The kernel means the thread that forked the process, and not the parent as a whole. So `start_tied` forks in a thread
that ends with its process only.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)

_orders: SimpleQueue[Callable[[], None]] = SimpleQueue()
_starter: threading.Thread | None = None
_lock = threading.Lock()


def die_with_parent() -> None:
    """Let the kernel kill this process when the thread that forked it ends. Raises `OSError`.

    A parent that died before the call is not noticed: look for it afterwards.
    """
    if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"asking to die with the parent: {os.strerror(number)}")


def start_tied(command: Sequence[str], **settings: Any) -> subprocess.Popen[bytes]:
    """Start a process as `Popen` does; the kernel kills it once this process ends, however that happens.

    What the process itself starts is not killed. Raises `OSError`.
    """
    answer: SimpleQueue[subprocess.Popen[bytes] | Exception] = SimpleQueue()

    def start() -> None:
        try:
            answer.put(subprocess.Popen(command, preexec_fn=functools.partial(_tie, os.getpid()), **settings))
        except Exception as error:
            answer.put(error)

    _orders.put(start)
    _begin_starter()
    started = answer.get()
    if isinstance(started, Exception):
        raise started
    return started


def _tie(parent: int) -> None:
    """Tie the new process to its parent, which may have died meanwhile."""
    die_with_parent()
    if os.getppid() != parent:
        os._exit(1)


def _begin_starter() -> None:
    """Start the thread if there is none; a forked process has none of its parent's threads."""
    global _starter
    with _lock:
        if _starter is None or not _starter.is_alive():
            _starter = threading.Thread(target=_carry_out, name="ebbtide-starter", daemon=True)
            _starter.start()


def _carry_out() -> None:
    while True:
        _orders.get()()
