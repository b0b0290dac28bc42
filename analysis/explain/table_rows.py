"""Finds rows of a record's tables, with their places.

Tables may be large: a table is read one row group at a time, and only the columns of the condition
until a row group has a row that meets it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from analysis.record.record import Record
from ebbtide.record.files import ANOMALIES_DIR
from ebbtide.record.tables import ANOMALY_SCHEMA, TABLES
from ebbtide.untrusted.parquet import READ_ERRORS, ParquetSource, damage_of

_ROW = "row number"


class TableRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a table; `place` names the file in the record and the row, counted from 0."""

    place: str
    values: dict[str, Any]


def find_rows(record: Record, table: str, **equals: int | str) -> Iterator[TableRow]:
    """Yield the rows of `table` whose columns have these values, in the order of the files.

    A record without the table has no rows, and a nullable column that a file lacks is null. Raises
    `UsageError` when a file is damaged or lacks a column of the condition.
    """
    names = (ANOMALY_SCHEMA if table == ANOMALIES_DIR else TABLES[table]).names
    where = pc.scalar(True)
    for name, value in equals.items():
        where = where & (pc.field(name) == value)
    for source in record.files(table):
        problem = record.folder.why_unreadable(source.path)
        if problem is not None:
            raise problem
        try:
            yield from _rows_of_file(record, source, names, list(equals), where)
        except READ_ERRORS as error:
            raise damage_of(source.path, error) from None


def _rows_of_file(
    record: Record, source: ParquetSource, names: list[str], columns: list[str], where: pc.Expression
) -> Iterator[TableRow]:
    name = record.folder.name_of(source.path)
    with source.open() as file:
        first = 0
        for group in range(file.num_row_groups):
            narrow = file.read_row_group(group, columns=columns)
            numbered = narrow.append_column(_ROW, pa.array(range(narrow.num_rows), pa.int64()))
            at = numbered.filter(where).column(_ROW)
            if len(at):
                rows = file.read_row_group(group).take(at).to_pylist()
                for number, row in zip(at.to_pylist(), rows, strict=True):
                    yield TableRow(place=f"{name}, row {first + number:,}", values={key: row.get(key) for key in names})
            first += narrow.num_rows
