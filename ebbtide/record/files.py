"""A record's name and folders, and writing its files so that a reader, or a killed writer, never meets half of one.

A run id names folders, files, namespaces and containers, also when a record brings it along.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ebbtide.errors import UsageError
from ebbtide.locks import is_held

RAW_DIR = "raw"
"""Folder of a record: metadata logs, replica segments and checkpoints as they were on the nodes' disks."""

JOURNAL_DIR = "journal"
"""Folder of a record: what the clients write while they run; gone once it has become tables."""

ANOMALIES_DIR = "anomalies"
"""Folder of a record: every anomaly that reconciling found."""

WITNESS_DIR = "witness"
"""Folder of a record: what Spark's Kafka connector returned at the end."""

WIRE_FILE = "wire.jsonl"
"""File of a record: what the wire proxies held, let go, delayed and dropped, one event a line."""

LOGS_DIR = "logs"
"""Folder of a record: what each node and each client printed."""

RUN_ID_ALLOWED = "1 to 128 of A-Z a-z 0-9 . _ -, a letter or a digit first"

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def is_run_id(text: str) -> bool:
    """Whether `text` can name a run; no path out of a folder can."""
    return _RUN_ID.fullmatch(text) is not None


def to_read(log: Path) -> str:
    """The command that shows a log of `LOGS_DIR`, while it is written and once it was compressed to `<name>.log.gz`."""
    return f"zcat -f {shlex.quote(str(log))}*"


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` beside `path` and rename it into place.

    Each call has a part of another name: several processes may write the same file at once.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _in_place_at_the_end(path, path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")) as file:
        file.write(content)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file to fill, beside `path`, that takes its place when the context ends without an exception.

    Else nothing is left of it; what a killed writer left is replaced. A living writer of the same file is overtaken:
    its context ends with an error. Raises `OSError`.
    """
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    with _in_place_at_the_end(path, part) as file:
        yield file


@contextlib.contextmanager
def new_folder(record: Path, name: str) -> Iterator[Path]:
    """A folder to fill that becomes the folder `name` of the record when the context ends without an exception.

    Else nothing is left of it, and what was there before stays. What killed writers left is removed. Raises `OSError`,
    and `UsageError` when the folder is a link.
    """
    target = own_folder(record, name)
    for left in record.glob(f".{name}.*.part"):
        shutil.rmtree(left)
    part = record / f".{name}.{secrets.token_hex(8)}.part"
    part.mkdir()
    try:
        yield part
        if target.is_dir():
            shutil.rmtree(target)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextlib.contextmanager
def _in_place_at_the_end(path: Path, part: Path) -> Iterator[BinaryIO]:
    """In a folder that somebody else filled, what lies there as `part` may be a link to anywhere: it is not opened."""
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    mine = os.fstat(descriptor)
    try:
        with os.fdopen(descriptor, "r+b") as file:
            yield file
            if not _is(part, mine):
                raise FileExistsError(errno.EEXIST, "another process makes the same file", str(path))
        os.replace(part, path)
    except BaseException:
        if _is(part, mine):
            part.unlink(missing_ok=True)
        raise


def _is(part: Path, file: os.stat_result) -> bool:
    """Whether it is that file, and none that another process put in its place."""
    try:
        return os.path.samestat(part.lstat(), file)
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def going(record: Path) -> Iterator[None]:
    """For the length of the block the run of this record is going: others leave the record alone (`is_going`).

    It is told by a lock on the folder (ebbtide.locks). Where the file system has no locks, nobody is told.
    """
    folder = os.open(record, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(folder)


def is_going(record: Path) -> bool:
    """Whether a process still runs what this record is of."""
    return is_held(record) is True


def check_ended(record: Path) -> None:
    """Raise `UsageError` for the record of a run that is going: what its clients write must not be taken from them."""
    if is_going(record):
        raise UsageError(
            "this run is still going", where=str(record), next="wait until it has ended, and type it again"
        )


def own_folder(record: Path, name: str) -> Path:
    """The folder `name` of a record, before something is written into it or removed from it.

    Raises `UsageError` where a link lies there: it may lead out of the record. The record itself may be named by one.
    """
    folder = record / name
    if folder.is_symlink():
        raise UsageError(
            "a folder of the record is a link, and what is missing in it would be written elsewhere",
            where=str(folder),
            got=f"a link to {os.readlink(folder)}",
            allowed="a folder",
        )
    return folder
