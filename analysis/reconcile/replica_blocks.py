"""Compares the committed rows of replicas block by block."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analysis.reconcile.blocks import BLOCK, PARTITION, block_of, sum_of
from analysis.reconcile.facts import Facts
from analysis.reconcile.tables import RecordTables

_CHECKPOINTS = pa.schema(
    [
        pa.field("run", pa.int32()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("broker", pa.int32()),
        pa.field("checkpoint", pa.int64()),
    ]
)


def differing_blocks(spark: SparkSession, tables: RecordTables, runs: Sequence[Facts]) -> DataFrame | None:
    """Return the blocks of offsets in which the replicas' committed rows differ.

    Returns None if nothing can be judged.
    """
    committed = committed_rows(spark, tables, runs)
    if committed is None:
        return None
    hashed = F.xxhash64("offset", "value", "leader_epoch")
    blocks = committed.groupBy(*PARTITION, block_of("offset").alias("block"), "broker")
    return differing(
        blocks.agg(F.count("*").alias("rows"), F.bit_xor(hashed).alias("xor"), sum_of(hashed).alias("sum"))
    )


def differing(replicas: DataFrame) -> DataFrame:
    """Return the blocks of offsets that are not the same in all replicas; `replicas` has one row for each of both."""
    summary = F.struct("rows", "xor", "sum")
    return (
        replicas.groupBy(*BLOCK)
        .agg(F.min(summary).alias("least"), F.max(summary).alias("most"), F.bool_or(F.isnull("sum")).alias("overflown"))
        .where("least <> most OR overflown")
        .select(*BLOCK)
    )


def checkpoints_of(runs: Sequence[Facts]) -> dict[tuple[int, str, int, int], int]:
    """Return each replica's last checkpointed HW, by (run, topic, partition, broker)."""
    return {
        (facts.run, one.topic, one.partition, one.broker): one.high_watermark
        for facts in runs
        for one in facts.checkpoints
    }


def committed_rows(spark: SparkSession, tables: RecordTables, runs: Sequence[Facts]) -> DataFrame | None:
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
