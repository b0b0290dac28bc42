"""The one way to read a file that somebody else may have made.

A pipe in the place of a file would make a reader wait for ever, and a device such as /dev/zero has no end. So every
file is opened without waiting, must be a regular file, and has a size limit.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from pathlib import Path

from ebbtide.errors import UsageError

SMALL_BYTES_MAX = 16 << 20
"""A file that a person may write: a scenario, a line of text."""
BYTES_MAX = 1 << 30
"""A file that grows with a run or with the nights: steps, events, a history."""

_BUFFER_BYTES = 1 << 20
_NAME_BYTES_MAX, _PATH_BYTES_MAX = 255, 4095
"""Those of Linux."""
_SHOWN_MAX = 60

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class UnreadableFile(UsageError):
    """The path does not lead to a regular file of a reasonable size that this process may read."""


def path_from(text: str) -> Path:
    """Return the path that somebody typed. Raises `UsageError` for a text that can name no file.

    The caller adds where it was typed.
    """
    longest = max((len(os.fsencode(part)) for part in text.split("/")), default=0)
    if not text:
        raise UsageError("a path cannot be empty", got=repr(text), allowed="the name of a file or folder")
    if "\0" in text:
        raise UsageError("a path cannot have a null byte", got=repr(text[:_SHOWN_MAX]))
    if longest > _NAME_BYTES_MAX or len(os.fsencode(text)) > _PATH_BYTES_MAX:
        raise UsageError(
            "a path is too long",
            got=f"{text[:_SHOWN_MAX]!r}..., {len(text):,} characters",
            allowed=f"names of up to {_NAME_BYTES_MAX} bytes, paths of up to {_PATH_BYTES_MAX:,}",
        )
    return Path(text)


def open_file(path: Path, *, what: str = "the file") -> io.BufferedReader:
    """Open a regular file for reading. Raises `UnreadableFile`, which calls the file `what`.

    The caller adds what to type next.
    """
    try:
        # A device may do something when it is opened, so its kind is checked by its name first.
        _check_kind(os.stat(path), path, what)
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except ValueError:
        raise _unreadable(path, what, "a null byte in its name") from None
    except OSError as error:
        raise _unreadable(path, what, error.strerror or str(error)) from None
    try:
        # Another file may have taken this name in between.
        _check_kind(os.fstat(opened), path, what)
        return io.BufferedReader(io.FileIO(opened), _BUFFER_BYTES)
    except BaseException:
        os.close(opened)
        raise


def read_file(path: Path, *, what: str = "the file", bytes_max: int = BYTES_MAX) -> bytes:
    """Return the content of a regular file of at most `bytes_max` bytes. Raises `UnreadableFile`."""
    with open_file(path, what=what) as file:
        # A hole takes no place on the disk, but time and memory to read. The kernel's own files have no size.
        if os.fstat(file.fileno()).st_size > bytes_max:
            raise _too_large(str(path), what, bytes_max)
        try:
            content: bytes | None = file.read(bytes_max + 1)
        except OSError as error:
            raise _unreadable(path, what, error.strerror or str(error)) from None
    if content is None:  # some of the kernel's files wait for what comes next
        raise _unreadable(path, what, "nothing to read now")
    return _checked_size(content, str(path), what, bytes_max)


def read_stdin(*, what: str) -> bytes:
    """Return what comes on stdin, at most `BYTES_MAX` bytes. Raises `UnreadableFile` for more, which may never end."""
    return _checked_size(sys.stdin.buffer.read(BYTES_MAX + 1), "stdin", what, BYTES_MAX)


def read_text(path: Path, *, what: str = "the file", bytes_max: int = SMALL_BYTES_MAX) -> str:
    """Return the text of a file in UTF-8, without a byte order mark. Raises `UnreadableFile`."""
    try:
        return read_file(path, what=what, bytes_max=bytes_max).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"{what} is not UTF-8", where=str(path), got=str(error)) from None


def is_file(path: Path) -> bool:
    """Whether there is a regular file; False for any name that no file can have."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether there is a folder; False for any name that no folder can have."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def special_kind(mode: int) -> str | None:
    """Return what a thing with this `st_mode` is, in words; None for a regular file."""
    return next((name for is_kind, name in _KINDS if is_kind(mode)), None if stat.S_ISREG(mode) else "not a file")


def _checked_size(content: bytes, where: str, what: str, bytes_max: int) -> bytes:
    if len(content) > bytes_max:
        raise _too_large(where, what, bytes_max)
    return content


def _too_large(where: str, what: str, bytes_max: int) -> UnreadableFile:
    got, allowed = f"more than {bytes_max:,} bytes", f"up to {bytes_max:,} bytes"
    return UnreadableFile(f"{what} is too large", where=where, got=got, allowed=allowed)


def _check_kind(found: os.stat_result, path: Path, what: str) -> None:
    kind = special_kind(found.st_mode)
    if kind is not None:
        raise UnreadableFile(f"{what} is not a regular file", where=str(path), got=kind, allowed="a regular file")


def _unreadable(path: Path, what: str, got: str) -> UnreadableFile:
    return UnreadableFile(f"cannot read {what}", where=str(path), got=got)
