"""Who gets a core first: a process may let others go before it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

JUDGES, WARMS_UP = 5, 10
"""How much nicer than clusters processes are that judge beside them, and that no record waits for yet."""
_NICEST = 19


def own_nice() -> int:
    """Return the nice value of the calling thread."""
    return os.getpriority(os.PRIO_PROCESS, 0)


def set_nice(pid: int, nice: int) -> None:
    """Set how nice a process is that leads its session, with all its threads, if this user may.

    A lower value than before needs a right that ordinary users lack. Many kernels share the cores between sessions, and
    look at nice only within a session. So the session gets the value too (sched(7), "The autogroup feature").
    """
    nice = min(_NICEST, nice)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PGRP, pid, nice)
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))
