"""Reconciles run records, any number of them in the same jobs: from their tables to anomalies.

The order: blocks of sends and polls, and the facts (one job); what differs (only where there are many rows);
the items of every kind, kept while they are counted and stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from analysis.reconcile import (
    aborted_read,
    damaged,
    dirty_order,
    duplicate,
    hw_regression,
    inconsistent_offset,
    lost,
    poll_back,
    poll_skip,
    replica_divergence,
    unseen,
    vanished,
)
from analysis.reconcile.blocks import compared, poll_blocks, readable, send_blocks, session_ranges
from analysis.reconcile.collecting import collect_facts
from analysis.reconcile.facts import Facts, partition_facts
from analysis.reconcile.history import all_evidence, leader_logs, suspicious_history
from analysis.reconcile.model import Reconciliation
from analysis.reconcile.narrowing import narrow
from analysis.reconcile.session import is_small, planned_for
from analysis.reconcile.store import check_writable, store
from analysis.reconcile.summary import Summary, summarize
from analysis.reconcile.tables import RecordTables, RunFiles, load, run_files
from harness.errors import UsageError
from harness.record.manifest import Manifest

KINDS = (
    lost,
    unseen,
    vanished,
    inconsistent_offset,
    duplicate,
    aborted_read,
    dirty_order,
    poll_skip,
    poll_back,
    hw_regression,
    replica_divergence,
    damaged,
)


def reconcile(spark: SparkSession, record: Path, manifest: Manifest) -> Reconciliation:
    """Find the anomalies of a record, and write all of them to its anomalies/.

    Raises `UsageError` when a file of the record is damaged or does not fit the record format, `HarnessError`
    when the record cannot be written to.
    """
    return reconcile_all(spark, [(record, manifest)])[0]


def reconcile_all(spark: SparkSession, records: Sequence[tuple[Path, Manifest]]) -> list[Reconciliation]:
    """`reconcile` for each record, all in the same jobs. Raises as it does: for any of them, and then none is done."""
    for record, _ in records:
        check_writable(record)
    runs = [run_files(record, manifest) for record, manifest in records]
    kept: list[DataFrame] = []
    try:
        with planned_for(spark, sum(sum(run.rows.values()) for run in runs)):
            return _reconciled(spark, runs, kept)
    except (Py4JJavaError, PySparkException) as error:
        raise _explained(error, [record for record, _ in records]) from None
    finally:
        for frame in kept:
            frame.unpersist()


def _reconciled(spark: SparkSession, runs: Sequence[RunFiles], kept: list[DataFrame]) -> list[Reconciliation]:
    tables = load(spark, runs)
    sends, polls = _kept(send_blocks(tables), kept), _kept(poll_blocks(tables), kept)
    facts = collect_facts(tables, sends, polls, runs)
    small = is_small(sum(sum(run.rows.values()) for run in runs))
    found = _items(spark, tables, sends, polls, facts, kept, small=small)
    summaries = [Summary() for _ in runs]
    items = None
    if found:
        # Each kind has as many parts as there are shuffle partitions; most of them are empty.
        parts = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
        items = reduce(DataFrame.union, found).coalesce(parts).persist(StorageLevel.MEMORY_AND_DISK)
        kept.append(items)
        summaries = summarize(items, len(runs))
    store([run.record for run in runs], items, [bool(summary.anomalies) for summary in summaries])
    return [
        Reconciliation(
            counts=one.counts,
            anomalies=summary.anomalies,
            unknown={kind.KIND: why for kind in KINDS if (why := kind.why_unknown(one)) is not None},
            lost=summary.lost,
            regressions=summary.regressions,
        )
        for one, summary in zip(facts, summaries, strict=True)
    ]


def _items(
    spark: SparkSession,
    tables: RecordTables,
    sends: DataFrame | None,
    polls: DataFrame | None,
    runs: Sequence[Facts],
    kept: list[DataFrame],
    *,
    small: bool,
) -> list[DataFrame]:
    """The items of each kind. Where there are few rows, looking what differs first costs more than it saves."""
    partitions = partition_facts(spark, runs)
    blocks = compared(sends, polls, partitions, runs)
    look_first = None if small else kept
    leaders = leader_logs(spark, tables, runs)
    seen = readable(blocks, tables, runs) if blocks is not None else None
    sessions = session_ranges(polls) if polls is not None else None
    kinds = [
        hw_regression.items(tables, runs),
        replica_divergence.items(spark, tables, runs, look_first),
        damaged.items(tables, runs),
        poll_back.items(tables, runs),
        poll_skip.items(tables, runs, seen),
        unseen.items(seen, blocks, sessions),
        dirty_order.items(tables, leaders, runs, look_first),
    ]
    evidence = all_evidence(spark, tables, runs)
    if evidence is not None and blocks is not None:
        narrowed = None if small else narrow(tables, blocks, evidence)
        if narrowed is not None:
            kept += [narrowed.offsets, narrowed.values]
        if narrowed is None or not narrowed.nothing:
            history = suspicious_history(tables, evidence, narrowed, runs, partitions)
            kinds.append(_of_values(history, runs))
    return [items for items in kinds if items is not None]


def _of_values(history: DataFrame, runs: Sequence[Facts]) -> DataFrame:
    """The kinds that compare values, all from one pass over their history."""
    kinds = [
        lost.items(runs),
        vanished.items(runs),
        inconsistent_offset.items(),
        duplicate.items(runs),
        aborted_read.items(),
    ]
    return history.select(F.inline(F.array_compact(F.array(*kinds))))


def _kept(frame: DataFrame | None, kept: list[DataFrame]) -> DataFrame | None:
    if frame is not None:
        frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
        kept.append(frame)
    return frame


_OF_THE_RECORD = ("FAILED_READ_FILE", "CAST_OVERFLOW", "ARITHMETIC_OVERFLOW")


def _explained(error: Exception, records: Sequence[Path]) -> Exception:
    """A file that is damaged behind its footer, as a `UsageError`; any other error as it is."""
    said = next((line for line in str(error).splitlines() if any(word in line for word in _OF_THE_RECORD)), None)
    if said is None:
        return error
    where = str(records[0]) if len(records) == 1 else f"one of {len(records)} records"
    return UsageError("a table's file is damaged", where=where, got=said, allowed="a whole Parquet file")
