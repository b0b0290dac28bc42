"""The files of a run record: the small ones, each read once, and the tables in batches. Rows are never kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from analysis.record.small_files import SmallFiles
from ebbtide.record.tables import TABLES
from ebbtide.untrusted.parquet import read_batches

T = TypeVar("T", bound=msgspec.Struct)


class RecordFiles(SmallFiles):
    """The files of a record. Raises `UsageError` where a file that is asked for is damaged."""

    def batches(
        self, table: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in batches that are not empty.

        All columns and all rows are read by default. A nullable column that a file lacks reads as null.
        """
        files = self.folder.files(table)
        ahead = {"batch_readahead": 2, "fragment_readahead": 1}
        yield from read_batches(files, table, schema=TABLES[table], columns=columns, where=where, **ahead)

    def rows(self, table: str, kind: type[T], where: pc.Expression | None = None) -> Iterator[T]:
        """Yield the rows of a table as structs, whose fields are the columns to read."""
        for batch in self.batches(table, kind.__struct_fields__, where):
            yield from msgspec.convert(batch.to_pylist(), list[kind])  # type: ignore[valid-type]

    def has_row(self, table: str, where: pc.Expression) -> bool:
        """Whether any row of a table fits."""
        return next(self.batches(table, ["partition"], where), None) is not None


def of_partition(topic: str, partition: int) -> pc.Expression:
    """Match the rows of one partition."""
    return (pc.field("topic") == topic) & (pc.field("partition") == partition)
