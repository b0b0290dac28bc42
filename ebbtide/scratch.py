"""Temporary folders that show whether their process still runs.

Abandoned folders can therefore be removed. The process holds a lock on a file in the folder
(ebbtide.locks).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from ebbtide.locks import is_held

SPARK = "ebbtide-spark-"
DOCTOR = "ebbtide-doctor-"
_PREFIXES = (SPARK, DOCTOR)
_LOCK = "owner.lock"


class ScratchFolder:
    """A new temporary folder that belongs to this process until `remove`."""

    def __init__(self, prefix: str = SPARK) -> None:
        """`prefix`: `SPARK` or `DOCTOR`."""
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        unlocked = self.path / f".{_LOCK}"
        self._lock = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # The rename makes the file appear locked.
        unlocked.rename(self.path / _LOCK)

    def remove(self) -> None:
        """Remove the folder with its content; a second call does nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def remove_abandoned() -> list[Path]:
    """Remove the folders of this user (as root: of every user) whose process ended.

    Return these folders.

    A folder without a lock file stays: it is being created, or does not belong to Ebbtide.
    """
    folders = [one for prefix in _PREFIXES for one in sorted(Path(tempfile.gettempdir()).glob(f"{prefix}*"))]
    return [folder for folder in folders if _is_abandoned(folder) and _is_removed(folder)]


def _is_abandoned(folder: Path) -> bool:
    try:
        if os.geteuid() not in (0, folder.lstat().st_uid):
            return False
    except OSError:
        return False
    return is_held(folder / _LOCK, follow=False) is False


def _is_removed(folder: Path) -> bool:
    """Remove the folder; whether that succeeded."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
