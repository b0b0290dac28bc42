"""Reads each table of a record once, for everybody who asks something of its rows.

    class AckedSends(Scan[int]):
        columns = {"sends": ("status",)}

        def add(self, rows: Rows) -> None:
            self._count += int(rows.where_word("status", "acked").sum())

    record.seen(AckedSends)

The judge's scans are named beforehand (`Record.asked`), and the pass that sums up a table feeds them all. What is only
asked where an anomaly can occur comes from the pass that chooses rows (`Record.asked_if_possible`). A scan that nobody
named reads its tables when somebody first asks for its result.

A scan takes each row once, however often its record is summed up: where the jobs of several records fail, each
record is summed up once more.

Rows come in batches of NumPy arrays. A null where none may be, a word that the format does not have, or an offset below
0 would silently drop its row from a rule, and a loss with it. So a record with such a row is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from threading import Lock
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from analysis.record.files import RecordFiles
from analysis.record.groups import Bools, Ints, parts_of
from analysis.record.table_files import TableFile
from ebbtide.errors import EbbtideError, UsageError
from ebbtide.record.tables import TABLES
from ebbtide.untrusted.parquet import READ_ERRORS, damage_of

BATCH_ROWS = 1 << 18
THREADS = 2

_WORDS: dict[str, tuple[str, ...]] = {
    "sends.status": ("acked", "failed", "unknown"),
    "sends.txn_outcome": ("committed", "aborted", "unknown"),
    "polls.isolation": ("read_committed", "read_uncommitted"),
    "watermarks.source": ("list_offsets", "fetch", "checkpoint"),
    "commits.status": ("acked", "failed", "unknown", "served"),
}
"""The words that a column may have."""


class RowGroup(NamedTuple):
    """One row group of a file; `number` is its own, `run` is the record's among those that are judged together."""

    record: RecordFiles
    run: int
    table: str
    file: TableFile
    number: int
    footer: pq.FileMetaData

    def error_of(self, column: str, got: object, allowed: str) -> UsageError:
        """Return the error to raise for a value that a column may not have."""
        return self.record.error_of(self.table, column, got, allowed)


def row_groups(record: RecordFiles, run: int, table: str) -> list[RowGroup]:
    """Return the row groups of all files of a table."""
    groups = []
    for file in record.checked[table]:
        if file.rows:
            footer = file.source.footer
            groups += [RowGroup(record, run, table, file, at, footer) for at in range(footer.num_row_groups)]
    return groups


class Rows:
    """The rows of a batch, as NumPy arrays by column."""

    def __init__(self, batch: pa.RecordBatch, group: RowGroup) -> None:
        self.group = group
        self.count: int = batch.num_rows
        self._batch, self._schema = batch, TABLES[group.table]
        self._words: dict[str, tuple[Ints, list[str]]] = {}
        self._numbers: dict[str, Ints] = {}
        self._parts: dict[tuple[str, ...], list[tuple[tuple[Any, ...], Ints]]] = {}

    @property
    def table(self) -> str:
        """The table that the rows are of."""
        return self.group.table

    def column(self, name: str) -> pa.Array:
        """Return a column in the type of the record format; all null where the file lacks it."""
        wanted = self._schema.field(name)
        if name not in self._batch.schema.names:
            return pa.nulls(self.count, wanted.type)
        self.refuse_nulls(name)
        column = self._batch.column(name)
        return column if column.type == wanted.type else column.cast(wanted.type)

    def refuse_nulls(self, name: str) -> None:
        """Raise `UsageError` for a null in a column that has none."""
        if not self._schema.field(name).nullable and self._batch.column(name).null_count:
            raise self.group.record.error_of_null(self.table, name)

    def numbers(self, name: str) -> Ints:
        """Return the numbers of a column, which nobody may change; a null is 0."""
        if name not in self._numbers:
            column = self.column(name)
            if column.null_count:
                column = pc.fill_null(column, 0)
            self._numbers[name] = np.asarray(column.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)
        return self._numbers[name]

    def known(self, name: str) -> Bools:
        """Return which rows have a value in this column."""
        column = self.column(name)
        if not column.null_count:
            return np.ones(self.count, np.bool_)
        return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))

    def flags(self, name: str) -> Bools:
        """Return which rows have a column set."""
        return np.asarray(self.column(name).to_numpy(zero_copy_only=False)).astype(np.bool_)

    def words(self, name: str) -> tuple[Ints, list[str]]:
        """Return the number of each row's word, -1 for null, and the words."""
        if name not in self._words:
            self._words[name] = self._find_words(name)
        return self._words[name]

    def _find_words(self, name: str) -> tuple[Ints, list[str]]:
        if name not in self._batch.schema.names:
            return np.full(self.count, -1, np.int64), []
        self.refuse_nulls(name)
        column = self._batch.column(name)
        if not pt.is_dictionary(column.type):
            column = column.dictionary_encode()
        words = column.dictionary.to_pylist()
        allowed = _WORDS.get(f"{self.group.table}.{name}")
        if allowed is not None and (wrong := [word for word in words if word not in allowed]):
            raise self.group.error_of(name, wrong[0], ", ".join(allowed))
        codes = pc.fill_null(column.indices, -1)
        return np.asarray(codes.to_numpy(zero_copy_only=False)).astype(np.int64), words

    def where_word(self, name: str, wanted: str) -> Bools:
        """Return which rows have this word."""
        codes, words = self.words(name)
        found: Bools = codes == (words.index(wanted) if wanted in words else -2)
        return found

    def parts(self, *names: str) -> Sequence[tuple[tuple[Any, ...], Ints]]:
        """Return the rows with one topic and one number in each of the columns `names`: these, and where they are."""
        if names not in self._parts:
            codes, topics = self.words("topic")
            found = parts_of([codes, *(self.numbers(name) for name in names)])
            self._parts[names] = [((topics[code], *numbers), here) for (code, *numbers), here in found]
        return self._parts[names]

    def at(self, here: Ints) -> pa.Table:
        """Return some of the rows, with all columns of the record format."""
        return pa.table({name: self.column(name) for name in self._schema.names}).take(pa.array(here))

    def is_final(self) -> Bools:
        """Return which rows of polls are of the final read."""
        final = self.group.record.manifest.final_consumer
        if final is None:
            return np.zeros(self.count, np.bool_)
        found: Bools = self.numbers("consumer") == final
        return found

    def refuse_negative_offsets(self, which: Bools | None = None) -> None:
        """Raise `UsageError` for an offset below 0 among these rows."""
        offset = self.numbers("offset")
        below = offset < 0 if which is None else (offset < 0) & which
        if below.any():
            raise self.group.error_of("offset", int(offset[below][0]), "0 to 2^63 - 1")


def batches(group: RowGroup, columns: Collection[str] | None = None) -> Iterator[Rows]:
    """Yield the rows of a row group, with the given columns of the record format, by default all.

    Raises one of `READ_ERRORS` where the file cannot be read.
    """
    wanted = TABLES[group.table].names if columns is None else {*columns, *group.file.untold}
    names = [name for name in TABLES[group.table].names if name in wanted and name in group.file.columns]
    texts = [name for name in names if pt.is_string(TABLES[group.table].field(name).type)]
    with group.file.source.open(read_dictionary=texts) as file:
        for batch in file.iter_batches(BATCH_ROWS, row_groups=[group.number], columns=names, use_threads=False):
            if batch.num_rows:
                batch.validate(full=True)  # a text may not be UTF-8
                rows = Rows(batch, group)
                for name in group.file.untold:
                    rows.refuse_nulls(name)
                yield rows


def for_each(groups: Sequence[RowGroup], work: Callable[[RowGroup], object]) -> None:
    """Do some work for each row group, in several threads. The first error ends all.

    Raises `UsageError` for a file that is damaged behind its footer.
    """

    def work_on(group: RowGroup) -> None:
        try:
            work(group)
        except UsageError:
            raise
        except READ_ERRORS as error:
            raise damage_of(group.file.source.path, error) from None

    if len(groups) == 1:
        work_on(groups[0])
    elif groups:
        with ThreadPoolExecutor(THREADS, "rows") as pool:
            for _ in pool.map(work_on, groups):
                pass


class BatchReader:
    """Sums up batches of tables. `reads`: by table, the columns that it needs.

    Each batch is read once for all readers, by several threads.
    """

    reads: Mapping[str, tuple[str, ...]] = {}

    def add(self, rows: Rows) -> None:
        """Sum up a batch of a table of `reads`."""


R = TypeVar("R")

Add = Callable[[Rows], None]

_IN_ANY_ORDER = ("sends", "polls", "replicas")
"""Several threads read these tables. The rows of all others come in the order of their files."""


class Scan(Generic[R]):
    """What is asked of the rows of some tables.

    `columns`: the columns of each table, in the order in which the tables are read. `is_torn`: reading a table failed,
    and nobody knows which of its rows were taken; another scan must begin anew.
    """

    columns: ClassVar[Mapping[str, tuple[str, ...]]]

    def __init__(self, record: RecordFiles) -> None:
        self.has_read: set[str] = set()
        self.is_torn = False
        self._lock = Lock()
        self._error: Exception | None = None

    @classmethod
    def needs_items(cls, record: RecordFiles) -> bool:
        """Whether it must know which anomalies the record has, before it reads a row."""
        return False

    def is_wanted(self, table: str) -> bool:
        """Whether the rows of a table matter; the tables before it are read by then."""
        return True

    def add(self, rows: Rows) -> None:
        """Take rows of one of the tables; one batch at a time."""
        raise NotImplementedError

    def result(self) -> R:
        """Return the answer; all rows were read."""
        raise NotImplementedError

    def feed(self, rows: Rows) -> None:
        """Take rows. An error of the scan's own stops no other scan: whoever asks for the answer gets it."""
        with self._lock:
            if self._error is None:
                try:
                    self.add(rows)
                except EbbtideError:
                    raise
                except Exception as error:
                    self._error = error

    @cached_property
    def answer(self) -> R:
        """The answer."""
        if self._error is not None:
            raise self._error
        return self.result()


@contextmanager
def fed(scans: Sequence[Scan[Any]], table: str) -> Iterator[Sequence[Scan[Any]]]:
    """Yield the scans that want a table and have not read it; the block feeds them all of its rows."""
    unread = [scan for scan in scans if table not in scan.has_read]
    wanting = [scan for scan in unread if table in scan.columns and scan.is_wanted(table)]
    try:
        yield wanting
    except BaseException:
        for scan in wanting:
            scan.is_torn = True
        raise
    for scan in unread:
        scan.has_read.add(table)


def feed_table(
    record: RecordFiles, table: str, scans: Sequence[Scan[Any]], *others: tuple[Collection[str], Add]
) -> None:
    """Read a table once, for all scans that want it, and for `others`, which several threads may call at once.

    A scan that has read it does not get it again. Each of the others has the columns that it reads. Raises
    `UsageError` for values that the record format does not have, and for files that are damaged.
    """
    with fed(scans, table) as wanting, record.kept_open(*[table] if wanting or others else []):
        asked = [*others, *((scan.columns[table], scan.feed) for scan in wanting)]
        wanted, takers = {name for columns, _ in asked for name in columns}, [take for _, take in asked]
        groups = row_groups(record, 0, table) if takers else []
        for some in [groups] if table in _IN_ANY_ORDER else [[group] for group in groups]:
            for_each(some, lambda group: [take(rows) for rows in batches(group, wanted) for take in takers])
