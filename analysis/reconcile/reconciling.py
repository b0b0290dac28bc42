"""Reconciles one run record: from its tables to anomalies, in a job for the facts and one for the items."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from analysis.reconcile import duplicate, hw_regression, inconsistent_offset, lost, replica_divergence, vanished
from analysis.reconcile.facts import Facts, collect_facts, partition_facts
from analysis.reconcile.history import suspicious_history
from analysis.reconcile.model import Reconciliation
from analysis.reconcile.session import planned_for
from analysis.reconcile.store import check_writable, store
from analysis.reconcile.summary import Summary, summarize
from analysis.reconcile.tables import RecordTables, load
from harness.errors import UsageError
from harness.record.manifest import Manifest

KINDS = (lost, vanished, inconsistent_offset, duplicate, hw_regression, replica_divergence)


def reconcile(spark: SparkSession, record: Path, manifest: Manifest) -> Reconciliation:
    """Find the anomalies of a record, and write all of them to its anomalies/.

    Raises `UsageError` when a file of the record is damaged or does not fit the record format, `HarnessError`
    when the record cannot be written to.
    """
    check_writable(record)
    tables = load(spark, record)
    try:
        with planned_for(spark, sum(tables.rows.values())):
            facts = collect_facts(tables, manifest)
            summary = _summary(spark, record, tables, facts)
    except (Py4JJavaError, PySparkException) as error:
        raise _explained(error, record) from None
    unknown = {kind.KIND: why for kind in KINDS if (why := kind.why_unknown(facts)) is not None}
    return Reconciliation(
        counts=facts.counts,
        anomalies=summary.anomalies,
        unknown=unknown,
        lost=summary.lost,
        regressions=summary.regressions,
    )


def _summary(spark: SparkSession, record: Path, tables: RecordTables, facts: Facts) -> Summary:
    found = [
        _of_values(spark, tables, facts),
        hw_regression.items(tables, facts),
        replica_divergence.items(spark, tables, facts),
    ]
    kinds = [items for items in found if items is not None]
    if not kinds:
        store(record, None)
        return Summary()
    # Each kind has as many parts as there are shuffle partitions; most of them are empty.
    parts = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    items = reduce(DataFrame.union, kinds).coalesce(parts).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        summary = summarize(items)
        store(record, items if summary.anomalies else None)
    finally:
        items.unpersist()
    return summary


def _of_values(spark: SparkSession, tables: RecordTables, facts: Facts) -> DataFrame | None:
    """The kinds that compare values, all from one pass over their history."""
    history = suspicious_history(spark, tables, facts, partition_facts(spark, facts))
    if history is None:
        return None
    kinds = [lost.items(facts), vanished.items(facts), inconsistent_offset.items(), duplicate.items(facts)]
    items = F.array_compact(F.array(*(kind for kind in kinds if kind is not None)))
    return history.select(F.inline(items))


def _explained(error: Exception, record: Path) -> Exception:
    """A file that is damaged behind its footer, as a `UsageError`; any other error as it is."""
    said = str(error)
    if "FAILED_READ_FILE" not in said and "CAST_OVERFLOW" not in said:
        return error
    line = next(line for line in said.splitlines() if "FAILED_READ_FILE" in line or "CAST_OVERFLOW" in line)
    return UsageError("a table's file is damaged", where=str(record), got=line, allowed="a whole Parquet file")
