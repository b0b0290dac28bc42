"""replica-divergence: two replicas differ at an offset below both their HWs.

The rule: one item an offset at which two replicas hold different values or leader epochs. Both must
be below the HW that each last checkpointed or answered; a row that is missing in one replica does not count.

The data: replicas, and each replica's last row of source checkpoint in watermarks.

Why it is sound: what is below a replica's HW was below the leader's, and committed records are the
same in every log. The checkpoint lags behind, which only leaves offsets out. A record without a
value (a control record) differs from a record with a value.

When it cannot tell: without replicas or checkpoints; where a replica's log is damaged below its HW
(the module damaged_logs). A replica without a checkpoint row is not compared.

How: only blocks of offsets in which the replicas' sums differ come here (the package rows). The different
records at one offset are in memory together: one a replica, more only where a log holds an offset
again.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from analysis.judge.rules.anomaly import Anomaly
from analysis.reconcile import crowds
from analysis.reconcile.model import VANISHED_RANGES
from analysis.reconcile.work import Work, items_of
from analysis.rows.facts import Facts
from analysis.rows.replicas import Replicas
from analysis.spark.columns import PARTITION
from analysis.spark.sql import DataFrame, F, SparkSession
from analysis.spark.tables import RecordTables
from ebbtide.record.tables import schema_of_rows

_CHECKPOINTS = schema_of_rows("run int32 topic string partition int32 broker int32 checkpoint int64")


def why_unknown(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged."""
    lacking = facts.missing_or_empty("replicas", "watermarks")
    if lacking is not None:
        return lacking
    if not facts.checkpoints:
        return "no replica's own HW is known (watermarks of source checkpoint)"
    return facts.with_damage() or facts.with_unread_replicas()


def _committed_rows(spark: SparkSession, tables: RecordTables, runs: Sequence[Facts]) -> DataFrame | None:
    """Return the rows below each replica's last checkpointed HW.

    Returns None if nothing can be judged.
    """
    if tables.replicas is None or not any(facts.checkpoints for facts in runs):
        return None
    checkpoints = [
        {
            "run": facts.run,
            "topic": one.topic,
            "partition": one.partition,
            "broker": one.broker,
            "checkpoint": one.high_watermark,
        }
        for facts in runs
        for one in facts.checkpoints
    ]
    small = spark.createDataFrame(pa.Table.from_pylist(checkpoints, schema=_CHECKPOINTS))
    rows = tables.replicas.join(F.broadcast(small), [*PARTITION, "broker"]).where("offset < checkpoint")
    return rows.select(*PARTITION, "broker", "offset", "value", "leader_epoch")


def _items(work: Work) -> DataFrame | None:
    """Return one row for each item; None if nothing can be judged or differs."""
    committed = _committed_rows(work.spark, work.tables, work.runs)
    if committed is None:
        return None
    record = F.struct("leader_epoch", "value")
    # Where an offset has two brokers and two records, some two of its rows differ in both. So not
    # all pairs need comparing.
    differs = (F.min("broker") != F.max("broker")) & ~F.min(record).eqNullSafe(F.max(record))
    one = F.struct("broker", "leader_epoch", "value")
    by_record = F.struct(record.alias("record"), "broker")
    # Two such rows are among these four: the lowest and the highest record, if they are not of one
    # broker. If they are, any row of another broker differs from one of the two.
    proof = F.array(F.min_by(one, by_record), F.max_by(one, by_record), F.min(one), F.max(one))
    held = F.array_sort(F.collect_set(one))
    oldest, newest = F.min("leader_epoch"), F.max("leader_epoch")
    offsets = committed.groupBy(*PARTITION, "offset").agg(
        differs.alias("differs"),
        proof.alias("proof"),
        held.alias("held"),
        F.when(oldest < newest, oldest).alias("older"),
    )
    shown = F.slice(F.array_distinct(F.concat("proof", "held")), 1, crowds.LISTED)
    stood = F.when(F.size("held") > crowds.LISTED, F.size("held"))
    details = {"leader_epoch": F.col("older"), "replicas": F.array_sort(shown), "stood": stood}
    return items_of(offsets.where("differs"), RULE.name, details, committed=F.lit(False), leader_epoch="older")


RULE = Anomaly(
    means="offset at which two replicas differ below both HWs",
    one="offset at which replicas differ",
    many="offsets at which replicas differ",
    why_unknown=why_unknown,
    items=_items,
    groups=VANISHED_RANGES,
    questions=(Replicas,),
    example="""
        Brokers 1 and 2 hold different values at offset 0, below both HWs.
        replicas: broker=1 0=1; broker=2 0=2
        watermarks: source=checkpoint broker=1 high_watermark=1; source=checkpoint broker=2 high_watermark=1
        gives: offset=0
    """,
)
