"""How a file is written that the user names, for example by `--out` or `--html`.

The path may be anything: a device, a pipe, or a link that somebody planted for root to follow. A new or a regular file
appears whole or not at all. What goes to a pipe or a device such as /dev/tty is written through, because a file of that
name in its place would break the host.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from ebbtide.errors import UsageError
from ebbtide.record.files import write_atomically


def check_named_file(path: Path, what: str, option: str) -> None:
    """Raise `UsageError` if the file that `option` names cannot be written, as far as a check can see.

    `what`: what it will hold, for the message, for example "page".
    """
    folder = path.parent
    if not os.access(folder, os.X_OK) or not folder.is_dir():
        raise _not_writable(path, None, what, option)
    if (kind := _refused_kind(path)) is not None:
        raise _not_writable(path, kind, what, option)
    is_there = os.path.lexists(path)
    # A regular file is replaced by one that is written beside it.
    needed = ([path] if is_there else []) + ([folder] if not is_there or path.is_file() else [])
    if not all(os.access(place, os.W_OK) for place in needed):
        raise _not_writable(path, None, what, option)


def refuse_existing(path: Path) -> None:
    """Raise `UsageError` if the file exists."""
    if path.is_file():
        raise UsageError("the file exists", where=str(path), next="name another file with --out, or remove this one")


def write_named_file(path: Path, content: bytes, what: str) -> None:
    """Write a file that the user named. Raises `UsageError` if that fails."""
    try:
        if (kind := _refused_kind(path)) is not None:
            raise _not_writable(path, kind, what)
        if not path.parent.is_dir():  # it is not made: a wrong letter in a path would make folders
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
        if not os.path.lexists(path) or path.is_file():
            write_atomically(path, content)
        else:
            _write_through(path, content)
    except OSError as error:
        raise _not_writable(path, error.strerror, what) from None


def _write_through(path: Path, content: bytes) -> None:
    """Write into a device, or into a pipe that somebody reads."""
    opened = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC)
    os.set_blocking(opened, True)
    with os.fdopen(opened, "wb") as file:
        if not _is_stream(os.fstat(opened).st_mode):  # another file took its name
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))
        file.write(content)


def _is_stream(mode: int) -> bool:
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _refused_kind(path: Path) -> str | None:
    """Return why no output may go to what is at `path` now; None where it may."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return None
    if stat.S_ISLNK(mode):
        return "a link, which may lead anywhere"
    if stat.S_ISDIR(mode):
        return "a folder"
    return None if stat.S_ISREG(mode) or _is_stream(mode) else "a disk or a socket"


def _not_writable(path: Path, got: str | None, what: str, option: str | None = None) -> UsageError:
    return UsageError(
        f"the {what} cannot be written there",
        where=str(path),
        got=got,
        allowed="a file in a folder that exists and can be written to",
        next=f"name another file with {option}" if option else "name another file",
    )
