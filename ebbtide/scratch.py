"""Temporary folders that show whether their process still runs.

Abandoned folders can therefore be removed. The process holds a lock on a file in the folder
(ebbtide.locks). A Java process that works in such a folder says so in its command line
(`java_scratch_flag`). It may outlive its parent: one that finds its folder removed while it starts
waits for ever. So it is killed before its folder is removed, as is a judging process, whose stderr is
a file in such a folder.
"""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ebbtide.folders import remove_folder
from ebbtide.locks import is_held
from ebbtide.waiting import is_readable

SPARK = "ebbtide-spark-"
DOCTOR = "ebbtide-doctor-"
IMAGE = "ebbtide-image-"
MAVEN = "ebbtide-maven-"
PYTEST = "ebbtide-pytest-"
UNPACKED = "ebbtide-unpacked-"
STORES = "ebbtide-stores-"
JUDGING = "ebbtide-judging-"
_PREFIXES = (JUDGING, SPARK, DOCTOR, IMAGE, MAVEN, PYTEST, UNPACKED, STORES)
"""A judging process that is killed with its folder leaves one of Spark, so that comes later."""
_KILL_TIMEOUT_S = 10.0
_LOCK = "owner.lock"


class ScratchFolder:
    """A new temporary folder that belongs to this process until `remove`."""

    def __init__(self, prefix: str = SPARK) -> None:
        """`prefix`: `SPARK`, `DOCTOR`, `IMAGE`, `MAVEN`, `PYTEST`, `UNPACKED`, `STORES` or `JUDGING`."""
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        unlocked = self.path / f".{_LOCK}"
        self._lock = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # The rename makes the file appear locked.
        unlocked.rename(self.path / _LOCK)

    def remove(self) -> None:
        """Remove the folder with its content; a second call does nothing."""
        remove_folder(self.path)
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """Yield a new folder that is removed at the end of the block."""
    scratch = ScratchFolder(prefix)
    try:
        yield scratch.path
    finally:
        scratch.remove()


def java_scratch_flag(folder: Path) -> str:
    """Return the JVM flag that makes a folder Java's temporary folder."""
    return f"-Djava.io.tmpdir={folder}"


def remove_abandoned() -> dict[Path, tuple[int, ...]]:
    """Remove the folders of this user (as root: of every user) whose process ended.

    Return these folders, each with the pids of the processes in it that were killed.

    A folder without a lock file stays: it is being created, or does not belong to Ebbtide.
    """
    folders = [one for prefix in _PREFIXES for one in sorted(Path(tempfile.gettempdir()).glob(f"{prefix}*"))]
    found = {}
    for folder in folders:
        if _is_abandoned(folder):
            killed = _kill_processes_in(folder)
            remove_folder(folder)
            if not folder.exists():
                found[folder] = killed
    return found


def _is_abandoned(folder: Path) -> bool:
    try:
        if os.geteuid() not in (0, folder.lstat().st_uid):
            return False
    except OSError:
        return False
    return is_held(folder / _LOCK) is False


def _kill_processes_in(folder: Path) -> tuple[int, ...]:
    """SIGKILL the processes of the folder's owner that work in it, await their end, and return their pids."""
    killed = []
    with suppress(OSError):
        owner = folder.lstat().st_uid
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if _is_killed_in(folder, process, owner):
                    killed.append(int(process.name))
    return tuple(killed)


def _is_killed_in(folder: Path, process: Path, owner: int) -> bool:
    if not _works_in(folder, process):
        return False
    pidfd = os.pidfd_open(int(process.name))
    try:
        # The pidfd pins the process: between this check and the signal the pid cannot be reused.
        if process.stat().st_uid != owner or not _works_in(folder, process):
            return False
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        is_readable(pidfd, _KILL_TIMEOUT_S)
    finally:
        os.close(pidfd)
    return True


def _works_in(folder: Path, process: Path) -> bool:
    """Whether a process has the folder as Java's temporary folder, or its stderr there. Raises `OSError`."""
    if os.fsencode(java_scratch_flag(folder)) in (process / "cmdline").read_bytes().split(b"\0"):
        return True
    return Path(os.readlink(process / "fd" / "2")).parent == folder.resolve()
