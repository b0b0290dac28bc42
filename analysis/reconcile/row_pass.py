"""Sums up and chooses the rows of large local records without Spark, and gives Spark the results.

Spark's own passes over all rows cost several times what reading the files costs: its code has to be
made and compiled, and rows leave their columns. So NumPy reads the files in batches, sums them up
(the module row_sums) and writes the sums into a scratch folder. Spark adds them up, and applies the
rules. The results are those of `blocks.send_blocks`, `blocks.poll_blocks`, `inversions.inversions`,
`replica_blocks.differing_blocks` and `narrowing.suspect_values`.

It leaves to Spark: small records, records that are elsewhere, other masters, records deleted on
purpose, and whatever does not have the types and words of the record format.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from analysis.reconcile import row_order, row_sums
from analysis.reconcile.row_batches import Ints, RowGroup, UnsuitedRows, batches, row_groups
from analysis.reconcile.row_sums import ACKED, BITS, FAILED, FINAL, HIDDEN, READ, READ_COMMITTED
from analysis.reconcile.tables import RunFiles
from analysis.spark.java_start import is_local
from ebbtide.errors import HarnessError
from ebbtide.untrusted.parquet import READ_ERRORS

THREADS = 2
_ROWS_OF_A_GROUP = 1 << 16
_ADDED_UP_ROWS = 1 << 21
"""So many sums of values, some 60 MB, wait until they are added up.

Each batch of a partition has sums of nearly the same blocks, because partitions share the values.
"""
_PLACE = "run int, topic string, partition int"
_ALL = "all_rows bigint, all_mask bigint, all_xor bigint, all_sum bigint"
_VALUES = "values"
_COLUMNS = {
    "sends": f"{_PLACE}, status string, block bigint, {_ALL}, {_ALL.replace('all_', 'shown_')}, "
    "placed bigint, aborted bigint, in_txn bigint, answered bigint, first bigint",
    "polls": f"{_PLACE}, consumer int, session int, final boolean, read_committed boolean, block bigint, {_ALL}, "
    "first bigint, last bigint, oldest int, newest int, damaged bigint, back bigint, jumped bigint, chained bigint",
    "replicas": f"{_PLACE}, broker int, block bigint, {_ALL}",
    _VALUES: "run int, values bigint, kind tinyint, rows bigint, mask bigint",
    "order": f"{_PLACE}, producer int, sequence bigint, offset bigint, value bigint",
}
_PARTITION = ["run", "topic", "partition"]


class ScratchTables:
    """Tables in a folder, to which several threads add rows, and which Spark reads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._waiting: dict[str, list[pa.Table]] = {}
        self._writers: dict[str, pq.ParquetWriter] = {}
        self.rows = 0

    def add(self, name: str, rows: pa.Table) -> None:
        """Add rows to a table; all rows of a table have the same columns."""
        with self._lock:
            waiting = self._waiting.setdefault(name, [])
            waiting.append(rows)
            self.rows += rows.num_rows
            if sum(one.num_rows for one in waiting) >= (_ADDED_UP_ROWS if name == _VALUES else _ROWS_OF_A_GROUP):
                self._write(name)

    def finish(self, name: str) -> str | None:
        """Write what was added, and return the path of the table; None if nothing was."""
        with self._lock:
            if name not in self._waiting:
                return None
            if self._waiting[name]:
                self._write(name)
            self._writers[name].close()
            return str(self._folder / name)

    def _write(self, name: str) -> None:
        rows = pa.concat_tables(self._waiting[name])
        self._waiting[name] = []
        if name == _VALUES:
            self.rows -= rows.num_rows
            rows = row_sums.added_values(rows)
            self.rows += rows.num_rows
        try:
            if name not in self._writers:
                (self._folder / name).mkdir()
                path = self._folder / name / "rows.parquet"
                self._writers[name] = pq.ParquetWriter(path, rows.schema, compression="zstd", write_statistics=False)
            self._writers[name].write_table(rows)
        except OSError as error:
            raise HarnessError("sums of rows cannot be stored", where=str(self._folder), got=str(error)) from None


def for_each(groups: Sequence[RowGroup], work: Callable[[RowGroup], None]) -> None:
    """Do some work for each row group, in several threads; the first error ends all.

    Raises `UnsuitedRows` for rows that cannot be read, or do not fit their types.
    """

    def work_on(group: RowGroup) -> None:
        try:
            work(group)
        except READ_ERRORS as error:
            raise UnsuitedRows(str(error)) from None

    with ThreadPoolExecutor(THREADS, "rows") as pool:
        for _ in pool.map(work_on, groups):
            pass


def summed_rows(spark: SparkSession, runs: Sequence[RunFiles], scratch: Path) -> RowPass | None:
    """Return a pass that has summed up the sends and polls of some runs; None: Spark must read them itself."""
    if not _suits(spark, runs):
        return None
    row_pass = RowPass(spark, runs, scratch)
    try:
        row_pass.sum_sends_and_polls()
    except UnsuitedRows:
        return None
    return row_pass


def _suits(spark: SparkSession, runs: Sequence[RunFiles]) -> bool:
    """Return whether a `RowPass` can do these runs.

    Workers on other hosts would leave it all to this process. Footers vouch that no column has forbidden nulls.
    """
    untold = any(file.untold for run in runs for files in run.files.values() for file in files)
    return (
        is_local(spark.sparkContext.master or "")
        and not untold
        and not any(run.remote or run.deletions for run in runs)
    )


class RowPass:
    """Passes over the rows of local records; its results are in a folder."""

    def __init__(self, spark: SparkSession, runs: Sequence[RunFiles], folder: Path) -> None:
        self.runs = runs
        self.scratch = ScratchTables(folder)
        self._spark = spark
        self._seed = secrets.randbits(63)
        self._ranges = row_order.SequenceRanges()

    def sum_sends_and_polls(self) -> None:
        """Sum up sends, and then polls. Raises `UnsuitedRows`."""
        doubted: list[list[Ints]] = [[] for _ in self.runs]
        for_each(row_groups(self.runs, "sends"), partial(self._sum_sends, doubted))
        blocks = [np.unique(np.concatenate(some)) if some else np.zeros(0, np.int64) for some in doubted]
        for_each(row_groups(self.runs, "polls"), partial(self._sum_polls, blocks))
        self.scratch.finish(_VALUES)

    @property
    def sums(self) -> int:
        """The number of sums, of which there are far fewer than rows."""
        return self.scratch.rows

    def _sum_sends(self, doubted: Sequence[list[Ints]], group: RowGroup) -> None:
        for rows in batches(group, "sends", _SENDS):
            self.scratch.add("sends", row_sums.sum_sends(rows, self._seed))
            value = rows.numbers("value")
            failed, hidden = rows.where_word("status", "failed"), row_sums.hidden_sends(rows)
            kinds = {ACKED: value[row_sums.placed_sends(rows)], FAILED: value[failed], HIDDEN: value[hidden]}
            self.scratch.add(_VALUES, row_sums.sum_values(rows.run, kinds))
            doubted[rows.run].extend(np.unique(kinds[kind] >> BITS) for kind in (FAILED, HIDDEN) if len(kinds[kind]))
            self.scratch.add("order", row_order.rows_in_order(rows, self._ranges))

    def _sum_polls(self, doubted: Sequence[Ints], group: RowGroup) -> None:
        for rows in batches(group, "polls", _POLLS):
            self.scratch.add("polls", row_sums.sum_polls(rows, self._seed))
            value, known = rows.numbers("value"), rows.known("value")
            kinds = {}
            if rows.final is not None:
                kinds[FINAL] = value[known & (rows.numbers("consumer") == rows.final)]
            if len(doubted[rows.run]):
                # Reads matter only where a send of the block failed, or may be hidden.
                read = known & np.isin(value >> BITS, doubted[rows.run])
                kinds[READ] = value[read]
                kinds[READ_COMMITTED] = value[read & rows.where_word("isolation", "read_committed")]
            self.scratch.add(_VALUES, row_sums.sum_values(rows.run, kinds))

    def send_blocks(self) -> DataFrame | None:
        """Return `blocks.send_blocks`."""
        sums = self._table("sends")
        if sums is None:
            return None
        counts = ("placed", "aborted", "in_txn", "answered")
        return sums.groupBy(*_PARTITION, "status", "block").agg(
            _added_up("all"),
            _added_up("shown"),
            *(F.sum(name).alias(name) for name in counts),
            F.min("first").alias("first"),
            F.lit(0).cast("bigint").alias("unsure"),
            F.lit(None).cast("int").alias("flaw"),
        )

    def poll_blocks(self) -> DataFrame | None:
        """Return `blocks.poll_blocks`."""
        sums = self._table("polls")
        if sums is None:
            return None
        lowest, highest, counts = ("first", "oldest"), ("last", "newest"), ("damaged", "back", "jumped", "chained")
        return sums.groupBy(*_PARTITION, "consumer", "session", "final", "read_committed", "block").agg(
            _added_up("all"),
            *(F.min(name).alias(name) for name in lowest),
            *(F.max(name).alias(name) for name in highest),
            *(F.sum(name).alias(name) for name in counts),
            F.lit(None).cast("int").alias("flaw"),
        )

    def sends_in_order(self) -> DataFrame | None:
        """Return the rows of sends that `inversions.decreases` needs (the module row_order); None: all are."""
        rows = self._table("order")
        return rows if self._ranges.are_apart() else None

    def replica_sums(self, checkpoints: Mapping[tuple[int, str, int, int], int]) -> DataFrame | None:
        """Return the sums of the replicas' blocks below these checkpoints. Raises `UnsuitedRows`."""

        def add(group: RowGroup) -> None:
            for rows in batches(group, "replicas", _REPLICAS):
                self.scratch.add("replicas", row_sums.sum_replicas(rows, self._seed, checkpoints))

        for_each(row_groups(self.runs, "replicas"), add)
        sums = self._table("replicas")
        if sums is None:
            return None
        added = _added_up("all")
        grouped = sums.groupBy(*_PARTITION, "block", "broker").agg(added)
        return grouped.select(*_PARTITION, "block", "broker", "all.rows", "all.xor", "all.sum")

    def value_sums(self) -> DataFrame | None:
        """Return the blocks of values with the columns that `narrowing.suspect_values` compares."""
        sums = self._table(_VALUES)
        if sums is None:
            return None

        def of(kind: int, column: str) -> Column:
            return F.when(F.col("kind") == kind, F.col(column))

        masks = {"acks_mask": ACKED, "failed": FAILED, "hidden": HIDDEN, "finals_mask": FINAL}
        masks |= {"read": READ, "read_committed": READ_COMMITTED}
        return sums.groupBy("run", "values").agg(
            F.sum(of(ACKED, "rows")).alias("acks"),
            F.sum(of(FINAL, "rows")).alias("finals"),
            *(F.bit_or(of(kind, "mask")).alias(name) for name, kind in masks.items()),
        )

    def table(self, name: str, columns: str) -> DataFrame | None:
        """Return a table of the scratch folder, with these columns in SQL; None if nothing was added to it."""
        path = self.scratch.finish(name)
        return None if path is None else self._spark.read.schema(columns).parquet(path)

    def _table(self, name: str) -> DataFrame | None:
        return self.table(name, _COLUMNS[name])


_SENDS = ("topic", "partition", "value", "producer", "sequence", "acks", "status", "offset", "txn", "txn_outcome")
_POLLS = (
    "topic",
    "partition",
    "offset",
    "value",
    "consumer",
    "session",
    "prev_offset",
    "leader_epoch",
    "isolation",
)
_REPLICAS = ("broker", "topic", "partition", "offset", "leader_epoch", "value")


def _added_up(prefix: str) -> Column:
    return F.struct(
        F.sum(f"{prefix}_rows").alias("rows"),
        F.bit_or(f"{prefix}_mask").alias("mask"),
        F.bit_xor(f"{prefix}_xor").alias("xor"),
        F.try_sum(f"{prefix}_sum").alias("sum"),
    ).alias(prefix)
