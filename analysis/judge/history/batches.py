"""Reads a record's table in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.record.tables import TABLES, table_files
from ebbtide.untrusted.parquet import read_batches


def batches(
    record: Path, table: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table in batches that are not empty.

    All columns and all rows are read by default. A nullable column that a file lacks reads as null.
    Raises `UsageError` when a file is damaged.
    """
    files = table_files(record, table)
    ahead = {"batch_readahead": 2, "fragment_readahead": 1}
    yield from read_batches(files, table, schema=TABLES[table], columns=columns, where=where, **ahead)


def has_row(record: Path, table: str, where: pc.Expression) -> bool:
    """Return whether any row of a table fits. Raises `UsageError` when a file is damaged."""
    return next(batches(record, table, ["partition"], where), None) is not None


def of_partition(topic: str, partition: int) -> pc.Expression:
    """Match the rows of one partition."""
    return (pc.field("topic") == topic) & (pc.field("partition") == partition)
