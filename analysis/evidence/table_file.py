"""Writes one Parquet file of a record's table in bounded memory, and never half of one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUP_ROWS = 100_000


class TableFile:
    """Rows are tuples in the order of the schema's columns. Use it as a context manager.

    The file appears under its name when the context ends without an exception; else nothing is left.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.rows = 0
        """Rows added so far."""
        self._path = path
        self._schema = schema
        self._part = path.with_name(path.name + ".part")
        self._pending: list[Sequence[object]] = []

    def __enter__(self) -> TableFile:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = pq.ParquetWriter(self._part, self._schema, compression="zstd")
        return self

    def add(self, row: Sequence[object]) -> None:
        """Append one row; a full row group is written out at once."""
        self._pending.append(row)
        self.rows += 1
        if len(self._pending) >= ROW_GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        columns = zip(*self._pending, strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, self._schema, strict=True)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self._pending.clear()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._pending:
            self._flush()
        self._writer.close()
        if kind is None:
            os.replace(self._part, self._path)
        else:
            self._part.unlink(missing_ok=True)
