"""Columns that several rules use, and the facts of partitions as a small table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_

import pyarrow as pa

from analysis.record.groups import BITS
from analysis.rows.deletions import Deletion
from analysis.rows.facts import PARTITION_FACTS, Facts, partition_rows
from analysis.spark.sql import Column, DataFrame, F, SparkSession

BLOCK = ["run", "topic", "partition", "block"]
PARTITION = ["run", "topic", "partition"]


def block_of(number: str) -> Column:
    """Return the block of an offset or a value."""
    return F.shiftright(number, BITS)


def bit_of(number: str) -> Column:
    """Return the bit of an offset or a value in the mask of its block."""
    place = F.col(number).bitwiseAND(F.lit(2**BITS - 1)).cast("int")
    return F.call_function("shiftleft", F.lit(1).cast("bigint"), place)


def is_transactional() -> Column:
    """Return whether a row of sends belongs to a transaction."""
    return F.col("txn").isNotNull() | F.col("txn_outcome").isNotNull()


def can_be_hidden() -> Column:
    """Return whether a row of sends is of a transaction not known to be committed."""
    return is_transactional() & ~F.coalesce(F.col("txn_outcome") == "committed", F.lit(False))


def runs_where(runs: Sequence[Facts], holds: Callable[[Facts], bool]) -> Column:
    """Return whether a row is of a run for which `holds`."""
    chosen = [facts.run for facts in runs if holds(facts)]
    if len(chosen) in (0, len(runs)):
        return F.lit(bool(chosen))
    return F.col("run").isin(chosen)


def partition_facts(spark: SparkSession, runs: Sequence[Facts]) -> DataFrame:
    """Return `facts.partition_rows` of all runs, small enough to broadcast."""
    rows = [row for facts in runs for row in partition_rows(facts)]
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=PARTITION_FACTS))


def deletions_by_run(runs: Sequence[Facts]) -> dict[int, tuple[Deletion, ...]]:
    """Return the records that steps deleted on purpose, by the index of the run."""
    return {facts.run: facts.deletions for facts in runs}


def was_deleted(deletions: Mapping[int, Sequence[Deletion]], seen: Column | None = None) -> Column:
    """Return whether a row is of a record that was deleted on purpose; `deletions` by run.

    `seen`: a time at which the record was certainly there before the deletion; by default when it was sent.
    """
    when = F.col("sent_ns") if seen is None else seen
    found = [
        is_below(run, one, F.col("offset")) & (when <= one.answered_ns)
        for run, of_run in deletions.items()
        for one in of_run
    ]
    return F.coalesce(reduce(or_, found, F.lit(False)), F.lit(False))


def is_below(run: int, one: Deletion, offset: Column) -> Column:
    """Return whether a row is of the deletion's partition, and `offset` lies below its log start."""
    in_partition = (F.col("run") == run) & (F.col("topic") == one.topic) & (F.col("partition") == one.partition)
    return in_partition & (offset < one.log_start)


def is_idempotent(runs: Sequence[Facts]) -> Column:
    """Return whether the value's producer was idempotent: it must not append twice."""
    found = F.lit(False)
    for producers in sorted({facts.idempotent for facts in runs if facts.idempotent}):
        found = found | (F.col("producer").isin(*producers) & runs_where(runs, _with_is_idempotent(producers)))
    return F.coalesce(found, F.lit(False))


def _with_is_idempotent(producers: tuple[int, ...]) -> Callable[[Facts], bool]:
    return lambda facts: facts.idempotent == producers
