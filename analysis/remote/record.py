"""Copies a run record of another file system here, and puts changes back.

Spark reads and writes the record itself, by its address. This process reads the copy: the small
files, and the tables, whose footers are checked and which the judge reads row by row. So a damaged
record is refused in the same words wherever it is, with the record's address instead of the copy's
path.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from analysis.evidence.remaking import parts_to_remake
from ebbtide.errors import EbbtideError, HarnessError, Problems, UsageError
from ebbtide.record.files import ANOMALIES_DIR, RAW_DIR, RecordFolder
from ebbtide.record.manifest import MANIFEST, NoRecord, read_manifest
from ebbtide.record.sums import SUMS, forget_sums, read_sums
from ebbtide.record.verdict import VERDICT
from ebbtide.scratch import ScratchFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from analysis.remote.files import Entry, RemoteFiles

_DEPTH_MAX = 8
"""Folders within folders; a record has four."""
_NOT_READ = {ANOMALIES_DIR, VERDICT, "report.html", "kept"}
"""What judging writes, or never reads."""


class RemoteRecord:
    """The record at `address`, copied to `folder` from `fetch` until `drop`.

    Nothing is there before.
    """

    def __init__(self, files: RemoteFiles, address: str, folder: Path) -> None:
        self.address = address
        self.folder = folder
        self._files = files
        self._had: dict[Path, tuple[int, int]] = {}

    def __str__(self) -> str:
        return self.address

    def fetch(self) -> None:
        """Copy what judging reads.

        Raises `UsageError` when it is not a record, `HarnessError` when it does not fit here. Where
        the record is missing, or is a file, so is the copy.
        """
        there = self._files.stat(self.address)
        if there is not None and there.is_folder:
            self.folder.mkdir(parents=True)
            entries = {entry.name: entry for entry in self._files.list_folder(self.address)}
            if (manifest := entries.pop(MANIFEST, None)) is not None and not manifest.is_folder:
                self._files.fetch(f"{self.address}/{MANIFEST}", self.folder / MANIFEST, manifest.size)
            record = RecordFolder(self.folder)
            is_complete = read_manifest(record).status == "complete"
            raw = entries.pop(RAW_DIR, None)
            wanted = [at for entry in entries.values() for at in self._files_of(Path(entry.name), entry)]
            self._fetch_all(wanted)
            # The copy without raw/ has the same tables and sums, so completing the record will do
            # this.
            if raw is not None and parts_to_remake(record, read_sums(record), is_complete=is_complete):
                self._fetch_all([*self._files_of(Path(RAW_DIR), raw)])
        elif there is not None:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self.folder.touch()
        self._had = self._file_stamps()

    def put_back(self) -> None:
        """Apply what was written, replaced and removed in the copy to the record itself.

        Only changes since the last call are applied. SHA256SUMS goes last. If the record already
        has the file, it first loses its entries for the other files, so that the next analysis
        finishes what was interrupted.
        """
        has = self._file_stamps()
        changed = [path for path in has if self._had.get(path) != has[path]]
        sums = Path(SUMS)
        if sums in changed:
            changed = [*(path for path in changed if path != sums), sums]
            if sums in self._had:
                self._put_sums_without({path.as_posix() for path in changed})
        if any(path.parts[0] == ANOMALIES_DIR for path in changed):
            self._files.put(self.folder / ANOMALIES_DIR, f"{self.address}/{ANOMALIES_DIR}")
        for path in changed:
            if path.parts[0] != ANOMALIES_DIR:
                self._files.put(self.folder / path, f"{self.address}/{path.as_posix()}")
        for gone in {path.parts[0] for path in self._had} - {path.parts[0] for path in has}:
            self._files.remove(f"{self.address}/{gone}")
        self._had = has

    def _put_sums_without(self, names: Set[str]) -> None:
        with tempfile.TemporaryDirectory(dir=self.folder.parent) as folder:
            shutil.copy(self.folder / SUMS, Path(folder) / SUMS)
            forget_sums(RecordFolder(Path(folder)), names.__contains__)
            self._files.put(Path(folder) / SUMS, f"{self.address}/{SUMS}")

    def check_writable(self) -> None:
        """Raise `HarnessError` when the record cannot be written to.

        Also when its file system does not answer.
        """
        self._files.check_writable(self.address)

    def check_answers(self) -> None:
        """Raise `HarnessError` when the record's file system does not answer."""
        self._files.stat(self.address)

    @contextlib.contextmanager
    def staging_address(self, to: Path) -> Iterator[str]:
        """Yield an address for Spark to write a folder at.

        When the block ends without an exception, it is copied to `to`.
        """
        address = f"{self.address}/.{ANOMALIES_DIR}.{uuid.uuid4().hex}.all"
        try:
            yield address
            self._files.fetch(address, to)
        finally:
            with contextlib.suppress(EbbtideError):
                self._files.remove(address)

    def stage(self, folder: Path) -> str:
        """Copy a folder of this host to the file system of the record, and return its address."""
        address = f"{self.address}/.{ANOMALIES_DIR}.{uuid.uuid4().hex}.rows"
        self._files.put(folder, address)
        return address

    def unstage(self, address: str) -> None:
        """Remove what `stage` made, as far as the file system answers."""
        with contextlib.suppress(EbbtideError):
            self._files.remove(address)

    def error_on_record(self, error: EbbtideError) -> EbbtideError:
        """Return an error about the copy as an error about the record."""

        def with_address(text: str | None) -> str | None:
            return text.replace(str(self.folder), self.address) if text is not None else None

        if isinstance(error, Problems):
            problems = [self.error_on_record(problem) for problem in error.problems]
            return Problems(with_address(error.file) or "", problems, next=with_address(error.next))
        kind = next((kind for kind in (NoRecord, UsageError) if isinstance(error, kind)), HarnessError)
        where, got, allowed, next_ = (
            with_address(text) for text in (error.where, error.got, error.allowed, error.next)
        )
        return kind(with_address(error.what) or "", where=where, got=got, allowed=allowed, next=next_)

    def drop(self) -> None:
        """Remove the copy."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.unlink(missing_ok=True)

    def _files_of(self, path: Path, entry: Entry) -> Iterator[tuple[Path, Entry]]:
        """Yield the files to copy at or below `path`, which is relative to the record."""
        if str(path) in _NOT_READ or str(path).startswith("."):
            return
        if not entry.is_folder:
            yield path, entry
            return
        if len(path.parts) > _DEPTH_MAX:
            raise UsageError(
                "folders are nested deeper than in any record",
                where=f"{self.address}/{path.as_posix()}",
                allowed=f"up to {_DEPTH_MAX} levels",
            )
        for below in self._files.list_folder(f"{self.address}/{path.as_posix()}"):
            yield from self._files_of(path / below.name, below)

    def _fetch_all(self, found: list[tuple[Path, Entry]]) -> None:
        needed = sum(entry.size for _, entry in found)
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise HarnessError(
                "no space for a copy of the files that this process reads",
                where=str(self.folder.parent.parent),
                got=f"{free:,} bytes free",
                allowed=f"{needed:,} bytes for {self.address}",
                next="TMPDIR=FOLDER ebbtide analyze ...    (a folder of a larger disk)",
            )
        for path, entry in found:
            self._files.fetch(f"{self.address}/{path.as_posix()}", self.folder / path, entry.size)

    def _file_stamps(self) -> dict[Path, tuple[int, int]]:
        """Return size and time of the last change of every file of the copy."""
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        return {path.relative_to(self.folder): ((at := path.stat()).st_size, at.st_mtime_ns) for path in files}


Copies = Mapping[Path, RemoteRecord]
"""Maps each folder that is a copy while it is judged to the record it is a copy of."""

NO_COPIES: Copies = {}


class RemoteStore(contextlib.AbstractContextManager["RemoteStore"]):
    """Finds records; their copies are in one temporary folder, removed with the block."""

    def __init__(self, spark: SparkSession) -> None:
        # Importing it imports PySpark, which a record of this host may not need.
        from analysis.remote.files import RemoteFiles

        self._files = RemoteFiles(spark)
        self._scratch = ScratchFolder()
        self._found = 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close()
        self._scratch.remove()

    def records_in(self, address: str) -> list[RemoteRecord]:
        """Return the record at an address, or the records in the folder there.

        The records of a folder are in the order of their names. Raises `UsageError` for something
        that is not an address or may not be read, `HarnessError` where nothing answers.
        """
        address = self._files.qualify(address)
        there = self._files.stat(address)
        if there is None or not there.is_folder:
            return [self._record(address)]
        entries = self._files.list_folder(address)
        if any(entry.name == MANIFEST for entry in entries):
            return [self._record(address)]
        below = [
            f"{address.rstrip('/')}/{entry.name}"
            for entry in entries
            if entry.is_folder and not entry.name.startswith(".")
        ]
        found = [one for one in below if self._files.stat(f"{one}/{MANIFEST}") is not None]
        return [self._record(one) for one in found or [address]]

    def _record(self, address: str) -> RemoteRecord:
        self._found += 1
        folder = self._scratch.path / str(self._found) / (address.rpartition("/")[2] or "record")
        return RemoteRecord(self._files, address, folder)
