"""Locks that say that a process is still there: the kernel takes them away with it, however it ends.

They are the same for other users, and from within containers and other namespaces, where a pid would be another's.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def is_held(path: Path, *, follow: bool = True) -> bool | None:
    """Whether a process holds the lock (flock, exclusive) on a file or folder; `follow`: where it is a link, too.

    None: it is not there, may not be read, or is on a file system without locks.
    """
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    except OSError:
        return None
    try:
        # Shared, so that two who ask at once do not take each other for the holder.
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(opened)
    return False
