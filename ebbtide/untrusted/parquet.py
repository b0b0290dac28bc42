"""The one way to read Parquet files that somebody else may have made.

A few bytes can stand for billions of rows, so the footer of each file is checked before a row is read: the file must
have about as many bytes as its rows need. Everything that is wrong with a file is one kind of error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ebbtide.errors import EbbtideError, UsageError
from ebbtide.untrusted.files import open_file
from ebbtide.untrusted.values import lack_of_host

ROWS_FREE, ROWS_A_BYTE_MAX = 50_000, 5
"""Tables of real runs have less than one row a byte: each row has an offset and a time of its own."""
ELEMENTS_FREE, ELEMENTS_A_ROW_MAX = 10_000, 100
"""Lists are of a partition's replicas, which are few; work grows with the square of their number."""
BYTES_FREE, EXPANSION_MAX = 256 << 20, 500
"""Uncompressed, tables of real runs are less than fifty times as large."""

READ_ERRORS = (pa.ArrowException, OSError, ValueError, LookupError, OverflowError, MemoryError)
"""What pyarrow raises for a damaged file, for columns that are not there, and where the host lacks memory."""


def damage_of(path: Path, error: Exception) -> EbbtideError:
    """Return the error to raise for one of `READ_ERRORS`: the file is damaged, or the host lacks memory to read it."""
    return lack_of_host(error, "a table's file", path) or UsageError(
        "a table's file is damaged", where=str(path), got=str(error), allowed="a whole Parquet file"
    )


def footer_of(path: Path) -> pq.FileMetaData:
    """Return the footer of a Parquet file. Raises `UsageError` if the file is damaged or stands for too many rows.

    Raises `HarnessError` if the host lacks memory, as everything here does.
    """
    with open_file(path, what="a table's file") as file:
        size = file.seek(0, 2)
        file.seek(0)
        try:
            footer = pq.read_metadata(file)
            uncompressed = sum(footer.row_group(at).total_byte_size for at in range(footer.num_row_groups))
            elements = _elements_of_longest_column(footer)
        except READ_ERRORS as error:
            raise damage_of(path, error) from None
    rows_max, bytes_max = ROWS_FREE + size * ROWS_A_BYTE_MAX, BYTES_FREE + size * EXPANSION_MAX
    if not 0 <= footer.num_rows <= rows_max or not 0 <= uncompressed <= bytes_max:
        raise UsageError(
            "a table's file stands for more rows than its bytes can hold",
            where=str(path),
            got=f"{footer.num_rows:,} rows, {uncompressed:,} bytes uncompressed, in {size:,} bytes",
            allowed=f"up to {rows_max:,} rows and {bytes_max:,} bytes",
        )
    elements_max = ELEMENTS_FREE + footer.num_rows * ELEMENTS_A_ROW_MAX
    if not 0 <= elements <= elements_max:
        raise UsageError(
            "lists in a table's file have more elements than a partition can have replicas",
            where=str(path),
            got=f"{elements:,} elements in a column of {footer.num_rows:,} rows",
            allowed=f"up to {elements_max:,} elements",
        )
    return footer


def _elements_of_longest_column(footer: pq.FileMetaData) -> int:
    """Return how many values the longest column has; each element of a list is one."""
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    columns = range(footer.num_columns)
    return max((sum(group.column(at).num_values for group in groups) for at in columns), default=0)


def read_rows(
    files: Sequence[Path],
    what: str,
    *,
    schema: pa.Schema | None = None,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
) -> pa.Table:
    """Return rows of a table's files, all by default. Raises `UsageError`, which calls the table `what`.

    With `schema`, a nullable column that a file lacks reads as null.
    """
    with _explain_errors(files, what):
        table = _dataset(files, schema).to_table(columns=None if columns is None else list(columns), filter=where)
        table.validate(full=True)  # a text may not be UTF-8
        return table


def read_batches(
    files: Sequence[Path],
    what: str,
    *,
    schema: pa.Schema | None = None,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
    **settings: Any,
) -> Iterator[pa.RecordBatch]:
    """Yield rows in batches that are not empty; `settings` are those of pyarrow's `to_batches`."""
    asked = None if columns is None else list(columns)
    with _explain_errors(files, what):
        batches = _dataset(files, schema).to_batches(columns=asked, filter=where, **settings)
    while True:
        with _explain_errors(files, what):
            batch = next(batches, None)
            if batch is not None:
                batch.validate(full=True)
        if batch is None:
            return
        if batch.num_rows:
            yield batch


def _dataset(files: Sequence[Path], schema: pa.Schema | None) -> ds.Dataset:
    for path in files:
        footer_of(path)
    return ds.dataset([str(path) for path in files], format="parquet", schema=schema)


@contextlib.contextmanager
def _explain_errors(files: Sequence[Path], what: str) -> Iterator[None]:
    try:
        yield
    except READ_ERRORS as error:
        where = str(files[0].parent if len(files) > 1 else files[0]) if files else None
        raise lack_of_host(error, f"the table {what}", where) or UsageError(
            f"the table {what} cannot be read", where=where, got=str(error)
        ) from None
