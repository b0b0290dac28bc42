"""Locks that show that a process still runs.

The kernel releases them however the process ends.

Other containers and namespaces see the same lock; a pid would mean another process there. Only this user can open a
lock's file: whoever can open it can hold it, and make others wait.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from ebbtide.errors import HarnessError, UsageError
from ebbtide.ownership import open_private
from ebbtide.waiting import WaitExpired, wait_until

_NOTE_AFTER_S = 1.0


class LockUnavailable(UsageError):
    """Another process holds the lock, or the file system does not support locks."""


@contextlib.contextmanager
def hold_lock(folder: Path, *, busy: str, unlockable: str, next: str) -> Iterator[None]:
    """Lock an existing folder by its file `lock`, which then has this process's pid.

    `busy` and `next` are the error and the remedy if another process holds the lock; `unlockable` is the error if the
    folder cannot be locked. Raises `LockUnavailable`, and `Untrusted` for a `lock` that is not a file.
    """
    path = folder / "lock"

    def cannot_lock(error: OSError) -> LockUnavailable:
        allowed = "a writable folder on a file system that supports flock"
        return LockUnavailable(unlockable, where=str(path), got=error.strerror, allowed=allowed)

    try:
        lock = open_private(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise cannot_lock(error) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockUnavailable(busy, where=str(folder), got=f"held by {_holder_of(lock)}", next=next) from None
        except OSError as error:
            raise cannot_lock(error) from None
        _sign(lock)
        yield
    finally:
        os.close(lock)


def note_on_stderr(text: str) -> None:
    """Print a line to stderr."""
    with contextlib.suppress(OSError, AttributeError):  # stderr may be closed
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


@contextlib.contextmanager
def await_lock(
    path: Path, *, purpose: str, timeout_s: float, note: Callable[[str], None] = note_on_stderr
) -> Iterator[None]:
    """Hold the lock file `path` in the block, after waiting for whoever holds it.

    `purpose` says what the lock is for. `note` gets a sentence if that takes longer than a second. Raises
    `HarnessError` after `timeout_s`, and for a file that cannot be locked.
    """
    try:
        lock = open_private(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise HarnessError(f"cannot lock {purpose}", where=str(path), got=error.strerror) from None
    try:
        if not _await(lock, path, purpose, min(_NOTE_AFTER_S, timeout_s)):
            note(f"waiting for {purpose}: {_holder_of(lock)} holds {path}")
            if not _await(lock, path, purpose, timeout_s):
                raise HarnessError(
                    f"waited {timeout_s:g} s for {purpose}",
                    where=str(path),
                    got=f"held by {_holder_of(lock)}",
                    next=f"wait until that process has ended, or end it; it is listed by: fuser -v {path}",
                )
        _sign(lock)
        yield
    finally:
        os.close(lock)


def _await(lock: int, path: Path, purpose: str, timeout_s: float) -> bool:
    """Wait for the lock; false if it is still held after `timeout_s`."""
    try:
        wait_until(lambda: _try(lock, path, purpose), awaited=purpose, timeout_s=timeout_s, poll_s=0.05)
    except WaitExpired:
        return False
    return True


def _try(lock: int, path: Path, purpose: str) -> bool:
    try:
        return try_lock(lock)
    except OSError as error:
        raise HarnessError(
            f"cannot lock {purpose}",
            where=str(path),
            got=error.strerror,
            allowed="a file system that supports flock",
        ) from None


def _sign(lock: int) -> None:
    """Write this process's pid into the lock's file."""
    os.truncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def _holder_of(lock: int) -> str:
    """Return who holds a lock as the kernel knows it, else as the file says."""
    for pid in _pids_with_lock(os.fstat(lock).st_ino):
        if pid.isdecimal() and int(pid) > 0:
            return f"process {pid}"
    signed = os.pread(lock, 32, 0).decode(errors="replace").strip()
    return f"process {signed}" if signed.isdigit() else "an unknown process"


def _is_listed(path: Path) -> bool | None:
    """Whether the kernel lists a lock (flock) on a file that this process may not open; None if it lists none."""
    try:
        inode = path.lstat().st_ino
    except OSError:
        return None
    return True if _pids_with_lock(inode) else None


def _pids_with_lock(inode: int) -> list[str]:
    """Return the processes that hold a lock (flock) on a file, as far as this process may see them."""
    with contextlib.suppress(OSError):
        lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        return [
            words[4] for words in lines if len(words) > 5 and words[1] == "FLOCK" and words[5].endswith(f":{inode}")
        ]
    return []


def try_lock(opened: int) -> bool:
    """Lock an open file or folder; false if another process holds a lock on it.

    Raises `OSError` on a file system without locks.
    """
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_held(path: Path) -> bool | None:
    """Whether a process holds an exclusive lock (flock) on a file or folder.

    No symbolic link is followed. What another user's process holds in a file that only that user can
    open is known from the kernel's list. Returns None if the file is missing, cannot be read, or is on a file system
    without locks.
    """
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except PermissionError:
        return _is_listed(path)
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
