"""Ends a process when its parent dies: the kernel sends it SIGKILL (PR_SET_PDEATHSIG)."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Let the kernel kill this process when the thread that forked it ends. Raises `OSError`.

    A parent that died before the call is not noticed: look for it afterwards.
    """
    if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"asking to die with the parent: {os.strerror(number)}")
