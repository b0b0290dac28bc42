"""The folder of a run record: its name, its files and folders, and how files are written whole.

A reader, or a killed writer, never leaves or meets half a file. A line that is added to a file of JSON lines is whole
and on the disk before the next one begins. A run id names folders, files, namespaces and containers, also when it comes
from somebody else's record.
"""

from __future__ import annotations

import contextlib
import errno
import filecmp
import os
import re
import secrets
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from ebbtide.errors import UsageError
from ebbtide.locks import is_held, try_lock
from ebbtide.ownership import open_private
from ebbtide.untrusted.files import is_file, is_folder, read_file
from ebbtide.untrusted.values import decode_json
from ebbtide.waiting import wait_until


class RecordFolder(msgspec.Struct, frozen=True):
    """The folder of a record. Whoever reads or judges the record asks it for names, and holds no path."""

    path: Path

    def __str__(self) -> str:
        """Return the path, as messages name the record."""
        return str(self.path)

    def __truediv__(self, name: str) -> Path:
        """Return the path of a file or folder of the record, whether it exists or not."""
        return self.path / name

    def has(self, name: str) -> bool:
        """Whether the record has a regular file of this name."""
        return is_file(self / name)

    def has_folder(self, name: str) -> bool:
        """Whether the record has a folder of this name."""
        return is_folder(self / name)

    def bytes(self, name: str) -> bytes:
        """Return the content of a file. Raises `UnreadableFile`."""
        return read_file(self / name, what=name)

    def name_of(self, path: Path) -> str:
        """Return the name in the record of a file below its folder."""
        return str(path.relative_to(self.path))

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return the names for which the record has no regular file."""
        return [name for name in names if not self.has(name)]

    def has_table(self, table: str) -> bool:
        """Whether the record has a Parquet file of the table, as `files` finds them; none is opened."""
        return bool(self.paths(table))

    def files(self, table: str, is_same: Callable[[Path, Path], bool] | None = None) -> list[Path]:
        """Return the Parquet files of a table, sorted; empty when it is missing.

        Accepts `<table>.parquet` and `<table>/**/*.parquet`. Of files with the same bytes, only the one with the
        shortest name counts: each row names its client or broker and its time, so a second copy is the same
        observation. `is_same` compares two files of one size, by default by reading both.
        """
        files = self.paths(table)
        by_size: dict[int, list[Path]] = {}
        for path in sorted(files, key=lambda path: (len(str(path)), path)):
            with contextlib.suppress(OSError):  # whoever reads it says so
                alike = by_size.setdefault(path.stat().st_size, [])
                if any((is_same or partial(filecmp.cmp, shallow=False))(path, other) for other in alike):
                    files.remove(path)
                else:
                    alike.append(path)
        return files

    def paths(self, table: str) -> list[Path]:
        """Return the files of a table, also those with the same bytes. None is opened."""
        files = sorted((self / table).rglob("*.parquet")) if self.has_folder(table) else []
        return ([self / f"{table}.parquet"] if self.has(f"{table}.parquet") else []) + files

    def why_unreadable(self, path: Path) -> UsageError | None:
        """Return the error for a table's file that cannot be read by its name, or None.

        Spark silently ignores hidden files.
        """
        if any(part.startswith(("_", ".")) for part in path.relative_to(self.path).parts):
            allowed = "names that begin with neither _ nor ."
            return UsageError("a table's file is hidden", where=str(path), got=path.name, allowed=allowed)
        if not is_file(path):
            return UsageError("a table's file is not a regular file", where=str(path), allowed="a regular file")
        return None


RAW_DIR = "raw"
"""Folder of a record: metadata logs, replica segments and checkpoints as they were on the nodes' disks."""

MORE_LOG_DIRS = "dirs"
"""Folder of a broker in RAW_DIR: a folder `N` for each log directory but the first, from 2 on."""

JOURNAL_DIR = "journal"
"""Folder of a record: the clients' journals; removed once they have become tables."""

ANOMALIES_DIR = "anomalies"
"""Folder of a record: every anomaly that the reconciliation found."""

WITNESS_DIR = "witness"
"""Folder of a record: the records that Spark's Kafka connector returned at the end."""

WIRE_FILE = "wire.jsonl"
"""File of a record: the events of the wire proxies (held, forwarded, dropped ...), one a line."""

QUORUM_FILE = "quorum.jsonl"
"""File of a record: the metadata batches that a majority of the controllers had acknowledged, one a line."""

CLOCK_FILE = "clock.jsonl"
"""File of a record: what the wall clock said while the run went on (`ebbtide.record.clock`), one reading a line."""

LOGS_DIR = "logs"
"""Folder of a record: the output of each node and each client."""

RUN_ID_ALLOWED = "1 to 128 of A-Z a-z 0-9 . _ -, a letter or a digit first"

RUN_ID_PATTERN = "[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
_RUN_ID = re.compile(RUN_ID_PATTERN)
_GOING = ".going"
"""File of a record that is locked while the run goes on; a killed run leaves it."""
_MARK_S = 10.0


def raw_log_dirs(folder: Path) -> tuple[Path, ...]:
    """Return the log directories of a broker's folder in RAW_DIR, in order; the folder itself is the first."""
    more = [path for path in (folder / MORE_LOG_DIRS).glob("*") if path.name.isdecimal() and path.is_dir()]
    return (folder, *sorted(more, key=lambda path: int(path.name)))


def is_run_id(text: str) -> bool:
    """Whether `text` can name a run; a path that leads out of a folder cannot."""
    return _RUN_ID.fullmatch(text) is not None


def log_command(log: Path) -> str:
    """Return the command that shows a log of `LOGS_DIR`.

    It works while the log is written, and after it was compressed to `<name>.log.gz`.
    """
    return f"zcat -f {shlex.quote(str(log))}*"


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` beside `path` and rename it into place.

    Each call uses a part file of its own: several processes may write the same file at once.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _rename_at_the_end(path, path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")) as file:
        file.write(content)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file beside `path`, which is renamed to `path` when the block succeeds.

    Otherwise it is removed. A part file that a killed writer left is replaced. A living writer of the same file is
    overtaken: its block ends with an error. Raises `OSError`.
    """
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    with _rename_at_the_end(path, part) as file:
        yield file


@contextlib.contextmanager
def new_folder(record: RecordFolder, name: str) -> Iterator[Path]:
    """Yield a folder that becomes the record's folder `name` when the block succeeds.

    Otherwise it is removed, and the existing folder stays. Part folders that killed writers left are removed. Raises
    `OSError`, and `UsageError` when the folder is a link.
    """
    target = own_folder(record, name)
    for left in record.path.glob(f".{name}.*.part"):
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
def _rename_at_the_end(path: Path, part: Path) -> Iterator[BinaryIO]:
    """Yield the new file `part`, and rename it to `path` when the block succeeds.

    `part` is never opened if it exists: in a folder that somebody else filled, it may be a link to anywhere.
    """
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    mine = os.fstat(descriptor)
    try:
        with os.fdopen(descriptor, "r+b") as file:
            yield file
            if not _is_same_file(part, mine):
                raise FileExistsError(errno.EEXIST, "another process makes the same file", str(path))
        os.replace(part, path)
    except BaseException:
        if _is_same_file(part, mine):
            part.unlink(missing_ok=True)
        raise


def _is_same_file(part: Path, file: os.stat_result) -> bool:
    """Whether `part` is still this file, and another process did not replace it."""
    try:
        return os.path.samestat(part.lstat(), file)
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def mark_going(record: RecordFolder) -> Iterator[None]:
    """Mark the run of this record as going while the block lasts.

    Other processes then leave the record alone (`is_going`). The mark is a locked file in the folder that no other
    user can open, and so cannot lock (ebbtide.locks); on a file system without locks there is no mark. Raises
    `WaitExpired` if another process keeps the lock.
    """
    mark = record / _GOING
    opened = open_private(mark, os.O_RDWR | os.O_CREAT)
    try:
        # A process that asks `is_going` holds the lock for that moment.
        with contextlib.suppress(OSError):
            wait_until(
                lambda: try_lock(opened),
                awaited=f"the lock of {mark}",
                timeout_s=_MARK_S,
                last_seen=lambda: f"another process holds it; it is listed by: fuser -v {shlex.quote(str(mark))}",
            )
        yield
    finally:
        with contextlib.suppress(OSError):  # its folder may be gone
            mark.unlink(missing_ok=True)
        os.close(opened)


def is_going(record: RecordFolder) -> bool:
    """Whether a process still carries out the run of this record."""
    return is_held(record / _GOING) is True


def check_ended(record: RecordFolder) -> None:
    """Raise `UsageError` if the run of the record is still going.

    Otherwise its clients' journals could be taken from them.
    """
    if is_going(record):
        raise UsageError(
            "this run is still going", where=str(record), next="wait until it has ended, and repeat the command"
        )


def own_folder(record: RecordFolder, name: str) -> Path:
    """Return the folder `name` of a record before it is changed.

    Raises `UsageError` where it is a link, which may lead out of the record. The record itself may be named by a
    link.
    """
    folder = record / name
    if folder.is_symlink():
        raise UsageError(
            "a folder of the record is a link, so that files would be written outside the record",
            where=str(folder),
            got=f"a link to {os.readlink(folder)}",
            allowed="a folder",
        )
    return folder


T = TypeVar("T")


def append_line(path: Path, line: bytes) -> None:
    """Append `line`, which has its own newline, and fsync. Raises `OSError`."""
    with path.open("ab") as file:
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def read_lines(
    path: Path, kind: type[T], *, what: str, next: str, dec_hook: Callable[[type, Any], Any] | None = None
) -> list[T]:
    """Return the values, oldest first; empty when the file does not exist.

    A last line without a newline was never written: it is cut off, so that the next line is whole. Raises
    `UsageError` for other damage, and for what is not a file. The error names `what` and says what to type `next`.
    `dec_hook` is that of `decode_json`.
    """
    if not os.path.lexists(path):
        return []
    text = read_file(path, what=f"the {what}")
    whole = text[: text.rfind(b"\n") + 1]
    if whole != text:
        os.truncate(path, len(whole))
    found = []
    for number, line in enumerate(whole.split(b"\n")[:-1], start=1):
        try:
            found.append(decode_json(line, kind, dec_hook))
        except msgspec.DecodeError as error:
            raise UsageError(
                f"a line of the {what} cannot be read", where=f"{path}:{number}", got=str(error), next=next
            ) from None
    return found
