"""replica-divergence: two replicas hold different batches at one offset below both their HWs.

The rule: one item an offset at which two replicas hold different values or leader epochs. Both must be below
the HW that each last checkpointed; a row that is missing in one is none.

The data: replicas, and each replica's last row of source checkpoint in watermarks.

Why it is sound: what is below a replica's HW was below the leader's, and committed records are the same in every
log. The checkpoint lags behind, which only leaves offsets out. A record without a value (a control record)
differs from one with a value.

When it cannot tell: without replicas or checkpoints; a replica without a checkpoint row is not compared.

How: logs that agree are not shuffled. Blocks of offsets are compared first, by how many records each replica
has in them and by the records' hashes taken together; only the blocks that differ are compared record by record.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from analysis.reconcile.facts import Facts
from analysis.reconcile.items import item
from analysis.reconcile.tables import RecordTables

KIND = "replica-divergence"

_BLOCK_BITS = 10
_CHECKPOINTS = pa.schema(
    [
        pa.field("run", pa.int32()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("broker", pa.int32()),
        pa.field("checkpoint", pa.int64()),
    ]
)


def why_unknown(facts: Facts) -> str | None:
    """Why nothing, or not everything, could be judged."""
    lacking = facts.without("replicas", "watermarks")
    if lacking is not None:
        return lacking
    if not facts.checkpoints:
        return "no replica's checkpointed HW is known (watermarks of source checkpoint)"
    return None


def items(
    spark: SparkSession, tables: RecordTables, runs: Sequence[Facts], kept: list[DataFrame] | None
) -> DataFrame | None:
    """One row an item; None: nothing can be judged, or nothing differs.

    With `kept`, blocks are compared at once and records are read again only if any differs; what must be kept
    until the items have been read is added to it.
    """
    if tables.replicas is None or all(why_unknown(facts) for facts in runs):
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
    committed = (
        tables.replicas.join(F.broadcast(small), ["run", "topic", "partition", "broker"])
        .where("offset < checkpoint")
        .select(
            "run",
            "topic",
            "partition",
            F.shiftright("offset", _BLOCK_BITS).alias("block"),
            "broker",
            "offset",
            "value",
            "leader_epoch",
        )
    )
    block = ["run", "topic", "partition", "block"]
    blocks = (
        committed.groupBy(*block, "broker")
        .agg(F.count("*").alias("rows"), F.bit_xor(F.xxhash64("offset", "value", "leader_epoch")).alias("hashes"))
        .groupBy(*block)
        .agg(F.min(F.struct("rows", "hashes")).alias("least"), F.max(F.struct("rows", "hashes")).alias("most"))
        .where("least <> most")
        .select(*block)
    )
    if kept is not None:
        blocks = blocks.persist(StorageLevel.MEMORY_AND_DISK)
        kept.append(blocks)
        if blocks.isEmpty():
            return None
    replica = F.struct("broker", "leader_epoch", "value")
    offsets = (
        committed.join(F.broadcast(blocks), block)
        .groupBy("run", "topic", "partition", "offset")
        .agg(F.array_sort(F.collect_list(replica)).alias("replicas"))
    )
    differs = F.exists(
        "replicas",
        lambda one: F.exists(
            "replicas",
            lambda other: (
                (one["broker"] != other["broker"])
                & ~(one["value"].eqNullSafe(other["value"]) & (one["leader_epoch"] == other["leader_epoch"]))
            ),
        ),
    )
    found = offsets.where(differs)
    row = item(KIND, offset=F.col("offset"), details={"replicas": F.col("replicas")})
    return found.select(row.alias("item")).select("item.*")
