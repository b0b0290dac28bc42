"""Locks that say that a process is still there: the kernel takes them away with it, however it ends.

They are the same for other users, and from within containers and other namespaces, where a pid would be another's.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from ebbtide.errors import UsageError


class NotHeld(UsageError):
    """Another process holds a lock, or the file system has none: says nothing of what was to be done with it."""


@contextlib.contextmanager
def holding(folder: Path, *, busy: str, unlockable: str, next: str) -> Iterator[None]:
    """Hold a folder, which is there, by its file `lock`, where stands which process does.

    `busy` and `next`: what another one that holds it does, and what to do then; `unlockable`: that it cannot be held.
    The kernel lets go, however the process ends. Raises `NotHeld`.
    """
    path = folder / "lock"

    def cannot(error: OSError) -> NotHeld:
        allowed = "a folder to write in, on a file system that knows flock"
        return NotHeld(unlockable, where=str(path), got=error.strerror, allowed=allowed)

    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise cannot(error) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
            raise NotHeld(busy, where=str(folder), got=f"held by process {holder}", next=next) from None
        except OSError as error:
            raise cannot(error) from None
        os.truncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(lock)


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
