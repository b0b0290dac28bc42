"""A record's table, a part at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from harness.errors import UsageError
from harness.record.tables import TABLES, table_files


def batches(record: Path, table: str, columns: Sequence[str], where: pc.Expression) -> Iterator[pa.RecordBatch]:
    """The rows of a table that the record has; a nullable column that a file lacks reads as null.

    Raises `UsageError` when a file is damaged.
    """
    files = [str(file) for file in table_files(record, table)]
    try:
        dataset = ds.dataset(files, format="parquet", schema=TABLES[table])
        yield from dataset.to_batches(columns=list(columns), filter=where, batch_readahead=2, fragment_readahead=1)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"the table {table} cannot be read", where=str(record), got=str(error)) from None
