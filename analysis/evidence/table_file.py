"""Writes one Parquet file of a table in bounded memory, and never half of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ebbtide.errors import HarnessError
from ebbtide.record.files import RecordFolder, new_file, new_folder, own_folder
from ebbtide.record.tables import TABLES

ROW_GROUP_ROWS = 100_000


class TableWriter:
    """Writes rows: tuples in the order of the schema's columns."""

    def __init__(self, writer: pq.ParquetWriter, schema: pa.Schema) -> None:
        self.rows = 0
        """Rows added so far."""
        self._writer = writer
        self._schema = schema
        self._pending: list[Sequence[object]] = []

    def add(self, row: Sequence[object]) -> None:
        """Append one row; a full row group is written out at once."""
        self._pending.append(row)
        self.rows += 1
        if len(self._pending) >= ROW_GROUP_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write out the rows that are still in memory."""
        if not self._pending:
            return
        columns = zip(*self._pending, strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, self._schema, strict=True)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self._pending.clear()


@contextlib.contextmanager
def new_table(record: RecordFolder, name: str) -> Iterator[TableWriter]:
    """Open a new table `NAME.parquet` of a record to write rows to.

    It appears under its name when the context ends without an exception; else nothing is left.
    Raises `HarnessError` when it cannot be written, or its source cannot be read.
    """
    path = record / f"{name}.parquet"
    with _explain_os_errors(path), new_table_file(path, name) as table:
        yield table


@contextlib.contextmanager
def new_table_part(record: RecordFolder, name: str, file: str) -> Iterator[TableWriter]:
    """Open one new file `NAME/FILE.parquet` of a table that has other files too.

    Raises `UsageError` when the table's folder is a link, else as `new_table` does.
    """
    path = own_folder(record, name) / f"{file}.parquet"
    with _explain_os_errors(path), new_table_file(path, name) as table:
        yield table


@contextlib.contextmanager
def new_table_folder(record: RecordFolder, name: str) -> Iterator[Path]:
    """Open a folder to fill with `new_table_file`s, which then becomes the table.

    It does so when the context ends without an exception. Raises as `new_table_part` does.
    """
    with _explain_os_errors(record / name), new_folder(record, name) as folder:
        yield folder


@contextlib.contextmanager
def new_table_file(path: Path, name: str) -> Iterator[TableWriter]:
    """Open a file of the table `name` to write, which appears when the context ends.

    It does so only without an exception. Raises `OSError`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as part, pq.ParquetWriter(part, TABLES[name], compression="zstd") as writer:
        table = TableWriter(writer, TABLES[name])
        yield table
        table.flush()


@contextlib.contextmanager
def _explain_os_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HarnessError(
            "a table of the record cannot be made",
            where=str(path),
            got=str(error),
            next="free space, remove what is in the way, or make the named file readable, and analyze again",
        ) from None
