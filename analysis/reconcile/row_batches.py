"""Reads the tables of local records in batches of NumPy arrays.

Such a batch is summed up without Spark, which then gets the sums (the module row_sums). Rows that do
not have the record format's types are not judged here: `UnsuitedRows` leaves them to Spark, which
refuses them in its own words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt
from numpy.typing import NDArray

from analysis.reconcile.files import TableFile
from analysis.reconcile.tables import RunFiles
from ebbtide.record.tables import TABLES
from ebbtide.untrusted.parquet import footer_of

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

BATCH_ROWS = 1 << 18
"""So many rows have at most so many in one block, so that no sum of their hashes overflows."""


class UnsuitedRows(Exception):
    """Raised for rows that Spark must read itself."""


class RowGroup(NamedTuple):
    """One row group of a file; `run` is the index of its run, `final` the run's final consumer."""

    run: int
    file: TableFile
    number: int
    footer: pq.FileMetaData
    final: int | None


def row_groups(runs: Sequence[RunFiles], table: str) -> list[RowGroup]:
    """Return the row groups of all files of a table."""
    groups = []
    for number, run in enumerate(runs):
        for file in run.files[table]:
            if file.rows:
                footer = footer_of(file.path)
                final = run.record.manifest.final_consumer
                groups += [RowGroup(number, file, at, footer, final) for at in range(footer.num_row_groups)]
    return groups


class Rows:
    """The rows of a batch, as NumPy arrays by column."""

    def __init__(self, batch: pa.RecordBatch, table: str, group: RowGroup) -> None:
        self.run, self.final = group.run, group.final
        self.count: int = batch.num_rows
        self._batch, self._schema = batch, TABLES[table]

    def column(self, name: str) -> pa.Array:
        """Return a column in the type of the record format; all null where the file lacks it."""
        wanted = self._schema.field(name)
        if name not in self._batch.schema.names:
            return pa.nulls(self.count, wanted.type)
        column = self._batch.column(name)
        if column.null_count and not wanted.nullable:
            raise UnsuitedRows(f"{name} has nulls")
        return column if column.type == wanted.type else column.cast(wanted.type)

    def numbers(self, name: str) -> Ints:
        """Return the numbers of a column; a null is 0."""
        column = self.column(name)
        if column.null_count:
            column = pc.fill_null(column, 0)
        return np.asarray(column.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)

    def known(self, name: str) -> Bools:
        """Return which rows have a value in this column."""
        column = self.column(name)
        if not column.null_count:
            return np.ones(self.count, np.bool_)
        return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))

    def words(self, name: str) -> tuple[Ints, list[str]]:
        """Return the number of each row's word, -1 for null, and the words."""
        if name not in self._batch.schema.names:
            return np.full(self.count, -1, np.int64), []
        column = self._batch.column(name)
        if column.null_count and not self._schema.field(name).nullable:
            raise UnsuitedRows(f"{name} has nulls")
        if not pt.is_dictionary(column.type):
            column = column.dictionary_encode()
        codes = pc.fill_null(column.indices, -1)
        return np.asarray(codes.to_numpy(zero_copy_only=False)).astype(np.int64), column.dictionary.to_pylist()

    def where_word(self, name: str, *wanted: str) -> Bools:
        """Return which rows have one of these words."""
        codes, words = self.words(name)
        return np.isin(codes, [number for number, word in enumerate(words) if word in wanted])

    def parts(self, *names: str) -> Iterator[tuple[tuple[Any, ...], Ints]]:
        """Yield the rows with one topic and one number in each of the columns `names`: these, and where they are."""
        codes, topics = self.words("topic")
        keys = [codes, *(self.numbers(name) for name in names)]
        if all((key == key[0]).all() for key in keys):
            order, starts = np.arange(self.count), np.zeros(1, np.int64)
        else:
            order = np.lexsort(keys[::-1])
            changes = np.ones(self.count, np.bool_)
            changes[1:] = np.any([key[order[1:]] != key[order[:-1]] for key in keys], axis=0)
            starts = np.flatnonzero(changes)
        for start, end in zip(starts, [*starts[1:], self.count], strict=True):
            one = order[start]
            yield (topics[keys[0][one]], *(int(key[one]) for key in keys[1:])), order[start:end]

    def refuse_other_words(self, name: str, allowed: Sequence[str]) -> None:
        """Raise `UnsuitedRows` for a word that is not allowed."""
        _, words = self.words(name)
        if not set(words) <= set(allowed):
            raise UnsuitedRows(f"{name} has other words")


def batches(group: RowGroup, table: str, columns: Sequence[str] | None = None) -> Iterator[Rows]:
    """Yield the rows of a row group, with the given columns of the record format, by default all.

    Raises one of `READ_ERRORS` where the file cannot be read.
    """
    names = [name for name in (TABLES[table].names if columns is None else columns) if name in group.file.columns]
    texts = [name for name in names if group.file.columns[name] == "string"]
    with pq.ParquetFile(group.file.path, metadata=group.footer, read_dictionary=texts) as file:
        for batch in file.iter_batches(BATCH_ROWS, row_groups=[group.number], columns=names, use_threads=False):
            if batch.num_rows:
                yield Rows(batch, table, group)
