"""A temporary folder that is its process's for certain, so that one whose process was killed can be removed.

The owner holds a lock on a file in it (ebbtide.locks).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from ebbtide.locks import is_held

PREFIX = "ebbtide-spark-"
_LOCK = "owner.lock"


class Scratch:
    """A new folder of this process, until `remove`."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        unlocked = self.path / f".{_LOCK}"
        self._lock = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Under its name it is locked from the first moment on.
        unlocked.rename(self.path / _LOCK)

    def remove(self) -> None:
        """Remove it with all that is in it. Again: nothing happens."""
        shutil.rmtree(self.path, ignore_errors=True)
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def remove_abandoned() -> list[Path]:
    """Remove this user's folders whose owner is gone, as root anybody's; those that were.

    One without a lock is left alone: it is being made just now, or somebody else's.
    """
    folders = sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))
    return [folder for folder in folders if _is_abandoned(folder) and not _remains(folder)]


def _is_abandoned(folder: Path) -> bool:
    try:
        if os.geteuid() not in (0, folder.lstat().st_uid):
            return False
    except OSError:
        return False
    return is_held(folder / _LOCK, follow=False) is False


def _remains(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return folder.exists()
