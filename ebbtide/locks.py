"""Locks that show that a process still runs.

The kernel releases them however the process ends.

Other users, containers and namespaces see the same lock; a pid would mean another process there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from ebbtide.errors import UsageError


class LockUnavailable(UsageError):
    """Another process holds the lock, or the file system does not support locks."""


@contextlib.contextmanager
def hold_lock(folder: Path, *, busy: str, unlockable: str, next: str) -> Iterator[None]:
    """Lock an existing folder by its file `lock`, which then has this process's pid.

    `busy` and `next` are the error and the remedy if another process holds the lock; `unlockable` is the error if the
    folder cannot be locked. Raises `LockUnavailable`.
    """
    path = folder / "lock"

    def cannot_lock(error: OSError) -> LockUnavailable:
        allowed = "a writable folder on a file system that supports flock"
        return LockUnavailable(unlockable, where=str(path), got=error.strerror, allowed=allowed)

    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise cannot_lock(error) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
            raise LockUnavailable(busy, where=str(folder), got=f"held by process {holder}", next=next) from None
        except OSError as error:
            raise cannot_lock(error) from None
        os.truncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(lock)


def is_held(path: Path, *, follow: bool = True) -> bool | None:
    """Whether a process holds an exclusive lock (flock) on a file or folder.

    With `follow` a symbolic link is followed. Returns None if the file is missing, cannot be read, or is on a file
    system without locks.
    """
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    except OSError:
        return None
    try:
        # Shared, so that two processes that ask at once do not take each other for the holder.
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(opened)
    return False
