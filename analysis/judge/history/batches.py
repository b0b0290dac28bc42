"""Reads a record's table in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from ebbtide.errors import UsageError
from ebbtide.record.tables import TABLES, table_files


def batches(
    record: Path, table: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table in batches that are not empty.

    All columns and all rows are read by default. A nullable column that a file lacks reads as null.
    Raises `UsageError` when a file is damaged.
    """
    files = [str(file) for file in table_files(record, table)]
    try:
        dataset = ds.dataset(files, format="parquet", schema=TABLES[table])
        asked = None if columns is None else list(columns)
        for batch in dataset.to_batches(columns=asked, filter=where, batch_readahead=2, fragment_readahead=1):
            if batch.num_rows:
                yield batch
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"the table {table} cannot be read", where=str(record), got=str(error)) from None
