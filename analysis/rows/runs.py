"""A run with checked files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from analysis.record.record import Record
from analysis.rows.deletions import Deletion, deletions_of
from analysis.rows.files import TableFile, check_files
from ebbtide.record.tables import TABLES
from ebbtide.untrusted.parquet import READ_ERRORS, ParquetSource
from ebbtide.untrusted.values import lack_of_host

if TYPE_CHECKING:
    from analysis.remote.record import RemoteRecord


class RunFiles(msgspec.Struct, frozen=True, kw_only=True):
    """A run with checked files: its record, and its tables' files.

    `remote`: the record that the folder is a copy of. `deletions`: the records that its steps
    deleted on purpose.
    """

    record: Record
    files: dict[str, list[TableFile]]
    remote: RemoteRecord | None = None
    deletions: tuple[Deletion, ...] = ()

    @property
    def rows(self) -> dict[str, int]:
        """Rows of each table."""
        return {table: sum(file.rows for file in self.files[table]) for table in TABLES}

    @property
    def missing(self) -> frozenset[str]:
        """The tables without a file."""
        return frozenset(table for table in TABLES if not self.files[table])


def run_files(record: Record, remote: RemoteRecord | None = None) -> RunFiles:
    """Return the files of a run, checked by their footers.

    Raises `Problems` (a `UsageError`) with all that is wrong with them.
    """
    files = check_files(record, record.manifest)
    _ = record.gaps  # raises here, before rows are read
    return RunFiles(record=record, files=files, remote=remote, deletions=deletions_of(record, files["partitions"]))


def has_unreadable_rows(run: RunFiles) -> bool:
    """Return whether a file that differs from SHA256SUMS has unreadable rows.

    No other file is read.
    """
    changed = {one.what for one in run.record.gaps}
    sources = [file.source for files in run.files.values() for file in files]
    return any(run.record.folder.name_of(one.path) in changed and not _can_read_rows(one) for one in sources)


def _can_read_rows(source: ParquetSource) -> bool:
    try:
        with source.open() as file:
            for batch in file.iter_batches():
                batch.validate(full=True)
    except READ_ERRORS as error:
        if lack := lack_of_host(error, "a table's file", source.path):
            raise lack from None
        return False
    return True
