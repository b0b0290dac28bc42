"""The files of a run record: the small ones, each read once, and the tables in batches.

Rows are never kept. The bytes of small tables are, so that each of their files is opened once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from analysis.record.small_files import SmallFiles
from analysis.record.table_files import TableFile, check_file, check_manifest
from ebbtide.errors import Problems, UsageError
from ebbtide.record.files import ANOMALIES_DIR
from ebbtide.record.tables import ANOMALY_SCHEMA, TABLES
from ebbtide.untrusted.files import is_file
from ebbtide.untrusted.parquet import ParquetSource, read_batches, read_rows

T = TypeVar("T", bound=msgspec.Struct)


class RecordFiles(SmallFiles):
    """The files of a record. Raises `UsageError` where a file that is asked for is damaged."""

    explained: int | None = None
    """The value of the record that somebody wants explained; where rows are thinned out, its rows stay."""

    @cached_property
    def _sources(self) -> dict[str, tuple[ParquetSource, ...]]:
        return {}

    def files(self, table: str) -> tuple[ParquetSource, ...]:
        """Return the Parquet files of a table, as `RecordFolder.files` does; empty when it is missing."""
        if table not in self._sources:
            sources: dict[Path, ParquetSource] = {}

            def is_same(one: Path, other: Path) -> bool:
                both = [sources.setdefault(path, ParquetSource(path)) for path in (one, other)]
                return both[0].has_content_of(both[1])

            paths = self.folder.files(table, is_same)
            self._sources[table] = tuple(sources.get(path) or ParquetSource(path) for path in paths)
        return self._sources[table]

    @cached_property
    def checked(self) -> dict[str, list[TableFile]]:
        """The files of each table, checked by their footers; a table without files is missing.

        Raises `Problems` with everything that is wrong with the files and with the manifest, at once.
        """
        problems = check_manifest(self.folder, self.manifest)
        found: dict[str, list[TableFile]] = {table: [] for table in TABLES}
        for table, files in found.items():
            for source in self.files(table):
                if (unreadable := self.folder.why_unreadable(source.path)) is not None:
                    problems.append(unreadable)
                elif (file := check_file(source, table, problems)) is not None:
                    files.append(file)
        if problems:
            raise Problems(str(self), problems)
        return found

    @cached_property
    def row_counts(self) -> dict[str, int]:
        """The rows of each table, by the footers."""
        return {table: sum(file.rows for file in files) for table, files in self.checked.items()}

    def error_of(self, table: str, column: str, got: object, allowed: str) -> UsageError:
        """Return the error to raise for a value that a column of a table may not have."""
        where = f"{self}: table {table}, column {column}"
        shown = "null" if got is None else repr(got)
        return UsageError("a value that the record format does not have", where=where, got=shown, allowed=allowed)

    def error_of_null(self, table: str, column: str) -> UsageError:
        """Return the error to raise for a null in a column that has none."""
        return self.error_of(table, column, None, f"{TABLES[table].field(column).type}, never null")

    def sources(self) -> dict[str, ParquetSource]:
        """Return the files of all tables, by their names in the record."""
        files = [file for table in TABLES for file in self.files(table) if is_file(file.path)]
        return {self.folder.name_of(file.path): file for file in files}

    @contextmanager
    def kept_open(self, *tables: str) -> Iterator[None]:
        """Let all who read these tables until the end of the block share one open of each file."""
        with ExitStack() as until_done:
            for table in tables:
                for file in self.files(table):
                    until_done.enter_context(file.kept_open())
            yield

    def has(self, table: str) -> bool:
        """Whether the record has a file of the table."""
        return bool(self.files(table))

    def batches(
        self, table: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in batches that are not empty.

        All columns and all rows are read by default. A nullable column that a file lacks reads as null.
        """
        files = self.files(table)
        ahead = {"batch_readahead": 2, "fragment_readahead": 1}
        yield from read_batches(files, table, schema=TABLES[table], columns=columns, where=where, **ahead)

    def rows(self, table: str, kind: type[T], where: pc.Expression | None = None) -> Iterator[T]:
        """Yield the rows of a table as structs, whose fields are the columns to read."""
        for batch in self.batches(table, kind.__struct_fields__, where):
            yield from msgspec.convert(batch.to_pylist(), list[kind])  # type: ignore[valid-type]

    def items(self, columns: Sequence[str], where: pc.Expression) -> pa.Table:
        """Return rows of anomalies/, which the reconciliation has written; empty where it is missing."""
        files = self.folder.files(ANOMALIES_DIR)
        return read_rows(files, ANOMALIES_DIR, schema=ANOMALY_SCHEMA, columns=columns, where=where)


def of_partition(topic: str, partition: int) -> pc.Expression:
    """Match the rows of one partition."""
    return (pc.field("topic") == topic) & (pc.field("partition") == partition)
