"""The one way to read a .tgz or a .zip that somebody else made, and to write a .tgz.

An archive may name files outside of the folder that it is unpacked into, hold links and devices, or unpack to more than
any disk has. So its names, kinds, number and sizes are checked before a byte of a file is written.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import io
import lzma
import os
import shlex
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

import msgspec

from ebbtide.errors import UsageError
from ebbtide.untrusted.files import is_file, open_file, path_from

ENDINGS = (".tgz", ".tar.gz", ".zip")
_DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError),
    *(ValueError, IndexError, struct.error),  # of headers with numbers and names that are none
)
_AT_ONCE_MAX = 8 << 20
"""A header of an archive is read at once, and its writer says how long it is."""
_DEPTH_MAX = 16
_RATIO_MAX, _RATIO_FROM = 300, 64 << 20
"""Kafka's files have long runs of zeros: a record of a run packs to a fiftieth."""
_COPIED_BYTES = 1 << 20


class ArchiveBounds(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive may unpack to; `allowed` and `next` are those of each error on it."""

    bytes_max: int
    files_max: int
    allowed: str
    next: str | None = None


class Member(msgspec.Struct, frozen=True):
    """A file of an archive."""

    path: PurePosixPath
    size: int
    open: Callable[[], IO[bytes]]


def is_archive(path: Path) -> bool:
    """Whether there is a file whose name ends as that of an archive."""
    return path.name.lower().endswith(ENDINGS) and is_file(path)


@contextlib.contextmanager
def members_of(archive: Path, bounds: ArchiveBounds) -> Iterator[Iterator[Member]]:
    """Yield the files of an archive, in its order; each can be read until the block ends.

    Raises `UsageError` for an archive that is damaged, encrypted or too large, and for one with links, devices, or
    names that lead out of it. So does reading a file of it.
    """
    try:
        with open_file(archive, what="the archive") as file, contextlib.ExitStack() as opened:
            packed = os.fstat(file.fileno()).st_size
            is_zip = archive.name.lower().endswith(".zip")
            found = _of_zip(file, opened) if is_zip else _of_tar(file, opened, bounds)
            yield _checked(found, archive, packed, bounds)
    except _DAMAGED as error:
        raise _refused(archive, bounds, "the archive is damaged, or not whole", str(error)) from None
    except _TooLong:
        raise _refused(archive, bounds, "the archive is too large", "a header without an end") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise _refused(archive, bounds, "the archive is damaged, or not whole", str(error)) from None


def unpack(archive: Path, into: Path, bounds: ArchiveBounds) -> None:
    """Write the files of an archive into an empty folder. Raises `UsageError` as `members_of` does."""
    with members_of(archive, bounds) as members:
        for member in members:
            path = into / member.path
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with member.open() as content, path.open("xb") as file:
                    shutil.copyfileobj(content, file, _COPIED_BYTES)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                raise _refused(archive, bounds, "the archive has two files of one name", str(member.path)) from None


def pack(folder: Path, archive: Path, bounds: ArchiveBounds) -> int:
    """Write a folder as a .tgz, and return its number of files; the same files give the same bytes.

    What was written is read again, as `members_of` reads it, and compared by checksum. Raises `UsageError` for a folder
    with links or devices, for one that is too large, and for an archive that exists or cannot be written.
    """
    if os.path.lexists(archive):
        next_ = f"rm {shlex.quote(str(archive))}    (or name another archive)"
        raise UsageError("the archive exists already", where=str(archive), allowed="a new file", next=next_)
    files = sorted(path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
    part = archive.with_name(f".{archive.name}.part.tgz")
    try:
        part.unlink(missing_ok=True)  # a killed pack left it
        digests = _write(folder, files, part)
        with members_of(part, bounds) as members:
            if {str(one.path): _digest(one.open()) for one in members} != digests:
                raise _refused(archive, bounds, "the archive does not hold what was packed", "another checksum")
        os.link(part, archive)  # which replaces no file
    except UsageError as error:
        error.replace(str(part), str(folder))
        raise
    except OSError as error:
        raise UsageError("the archive cannot be written there", where=str(archive), got=error.strerror) from None
    finally:
        part.unlink(missing_ok=True)
    return len(files)


def _write(folder: Path, files: list[Path], part: Path) -> dict[str, str]:
    """Write the files into an archive of this name, and return the checksum of each."""
    digests = {}
    with (
        part.open("xb") as out,
        gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in files:
            if path.is_symlink():
                raise UsageError("a link cannot be packed", where=str(path), allowed="files and folders")
            with open_file(path) as content:
                member = tarfile.TarInfo((PurePosixPath(folder.name) / path.relative_to(folder)).as_posix())
                member.size, member.mode = os.fstat(content.fileno()).st_size, 0o644
                tar.addfile(member, content)
                content.seek(0)
                digests[member.name] = _digest(content)
    return digests


def _digest(content: IO[bytes]) -> str:
    with content:
        return hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]


class _Found(msgspec.Struct, frozen=True):
    """What an archive says of one of its members, unchecked."""

    name: str
    is_file: bool
    is_folder: bool
    size: int
    is_encrypted: bool
    open: Callable[[], IO[bytes]]


def _of_tar(file: BinaryIO, opened: contextlib.ExitStack, bounds: ArchiveBounds) -> Iterator[_Found]:
    content = _Bounded(gzip.GzipFile(fileobj=file, mode="rb"), bounds.bytes_max * 2)
    tar = opened.enter_context(tarfile.TarFile(fileobj=content))

    def opener(member: tarfile.TarInfo) -> IO[bytes]:
        found: IO[bytes] | None = tar.extractfile(member)
        assert found is not None
        return found

    for member in tar:
        # A sparse file would be larger than what is read of it.
        is_file = member.isreg() and not member.issparse()
        yield _Found(member.name, is_file, member.isdir(), member.size, False, functools.partial(opener, member))
    while content.read(_COPIED_BYTES):  # the checksum of all comes last
        pass


def _of_zip(file: BinaryIO, opened: contextlib.ExitStack) -> Iterator[_Found]:
    archive = opened.enter_context(zipfile.ZipFile(_Bounded(file), "r"))
    for member in archive.infolist():
        kind = stat.S_IFMT(member.external_attr >> 16)  # 0 where another system wrote it
        is_folder = member.is_dir() and kind in (0, stat.S_IFDIR)
        is_file = not member.is_dir() and kind in (0, stat.S_IFREG)
        is_encrypted = bool(member.flag_bits & 1)
        yield _Found(
            member.filename,
            is_file,
            is_folder,
            member.file_size,
            is_encrypted,
            functools.partial(archive.open, member),
        )


def _checked(found: Iterator[_Found], archive: Path, packed: int, bounds: ArchiveBounds) -> Iterator[Member]:
    size = 0
    for number, member in enumerate(found, 1):
        path = PurePosixPath(member.name)
        size += member.size
        if size > bounds.bytes_max or number > bounds.files_max:
            got = f"more than {bounds.bytes_max >> 30} GiB, or {bounds.files_max:,} files"
            raise _refused(archive, bounds, "the archive is too large", got)
        if size > max(_RATIO_FROM, _RATIO_MAX * packed):
            got = f"{packed:,} bytes that unpack to {size:,} or more"
            raise _refused(archive, bounds, "the archive unpacks to far more than its size", got)
        if path.is_absolute() or ".." in path.parts or len(path.parts) > _DEPTH_MAX:
            raise _refused(archive, bounds, "a name in the archive leads out of it, or too deep", member.name)
        if not (member.is_file or member.is_folder):
            raise _refused(archive, bounds, "the archive has a link or a device", member.name)
        if member.is_encrypted:
            raise _refused(archive, bounds, "the archive is encrypted", member.name)
        try:
            path_from(member.name)
        except UsageError as error:
            raise _refused(archive, bounds, "a name in the archive can name no file", error.as_clause()) from None
        if member.is_file:
            yield Member(path, member.size, member.open)


def _refused(archive: Path, bounds: ArchiveBounds, what: str, got: str) -> UsageError:
    return UsageError(what, where=str(archive), got=got, allowed=bounds.allowed, next=bounds.next)


class _TooLong(Exception):
    """A part of an archive is longer than any that should be read at once."""


class _Bounded(io.RawIOBase):
    """A stream of which little is read at once, and nothing behind `end`."""

    def __init__(self, stream: Any, end: int | None = None) -> None:
        self._stream = stream
        self._end = end

    def read(self, size: int | None = -1, /) -> bytes:
        asked = _AT_ONCE_MAX + 1 if size is None or size < 0 else min(size, _AT_ONCE_MAX + 1)
        self._check_end(self.tell() + asked)
        content: bytes = self._stream.read(asked)
        if len(content) > _AT_ONCE_MAX:
            raise _TooLong
        return content

    def seek(self, offset: int, whence: int = 0, /) -> int:
        if whence == io.SEEK_SET:
            self._check_end(offset)
        return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        return int(self._stream.tell())

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def _check_end(self, offset: int) -> None:
        if offset < 0:
            raise EOFError("a header names a place before the archive")
        if self._end is not None and offset > self._end:
            raise _TooLong
