"""Walks and removes folders of any depth.

Any user of a host can nest folders some thousand deep, where root cleans up or lists records. `os.walk` and
`shutil.rmtree` call themselves for each level and end with a RecursionError, and a path of such a depth is too long for
the kernel. `HeldFolder` is a folder that stays the same one when somebody renames it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
from collections.abc import Iterator
from pathlib import Path

from ebbtide.errors import EbbtideError, HarnessError

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class HeldFolder:
    """A folder that this process holds open: `path` leads to it, also after somebody renamed it.

    A link in the folder's old place leads nobody there. `path` is /proc/PID/fd/N, which the processes of this user
    can open while this process lives and holds the folder.
    """

    def __init__(self, folder: Path) -> None:
        """Open the folder. Raises `OSError` for a link, and for what is no folder."""
        self._folder = folder
        self._opened = os.open(folder, _FLAGS)
        self.path = Path(f"/proc/{os.getpid()}/fd/{self._opened}")

    def require_in_place(self) -> None:
        """Raise `HarnessError` if somebody renamed or removed the folder, or one above it."""
        with contextlib.suppress(OSError):
            if os.path.samestat(os.lstat(self._folder), os.fstat(self._opened)):
                return
        raise HarnessError(
            "somebody renamed or replaced the folder of this run while it went on; nothing is written to its old path",
            where=str(self._folder),
            got=f"the folder is now {os.readlink(self.path)}",
            next=f"ls -ld {shlex.quote(str(self._folder))}    (who owns what is there now), then run again",
        )

    def name_in(self, error: BaseException) -> None:
        """Let the message of an error name the folder by its path, instead of by the handle of this process."""
        if isinstance(error, EbbtideError):
            error.replace(str(self.path), str(self._folder))

    def close(self) -> None:
        """Let the folder go; `path` leads nowhere from then on."""
        os.close(self._opened)


def walk(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield everything below a folder. Links are not followed, and what cannot be listed is left out."""
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                found = list(entries)
        except OSError:  # removed meanwhile, of another user, or too deep for a path
            continue
        yield from found
        waiting.extend(entry.path for entry in found if entry.is_dir(follow_symlinks=False))


def remove_folder(folder: Path) -> bool:
    """Remove a folder with its content, as far as that is possible; a link or a missing folder stays as it is.

    Returns whether there was a folder to remove. Each folder below is moved up before it is emptied, so that neither
    paths nor open files grow with the depth.
    """
    found = False
    with contextlib.suppress(OSError):
        top = os.open(folder, _FLAGS)
        try:
            found = True
            _empty(top)
        finally:
            os.close(top)
        os.rmdir(folder)
    return found


def _empty(top: int) -> None:
    """Remove everything in the open folder `top`. Raises `OSError` where that is not possible."""
    waiting = _remove_files(top, top)
    while waiting:
        name = waiting.pop()
        with contextlib.suppress(OSError):
            inner = os.open(name, _FLAGS, dir_fd=top)
            try:
                waiting += _remove_files(inner, top)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)


def _remove_files(folder: int, top: int) -> list[str]:
    """Remove the files of an open folder, and move its folders to `top`; returns their names there."""
    folders: list[str] = []
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        with contextlib.suppress(OSError):
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=folder)
            elif folder == top:
                folders.append(entry.name)
            else:
                name = f".removed-{secrets.token_hex(8)}"
                os.rename(entry.name, name, src_dir_fd=folder, dst_dir_fd=top)
                folders.append(name)
    return folders
