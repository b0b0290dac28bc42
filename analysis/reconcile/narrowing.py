"""Leaves out the rows that surely are in no anomaly of values, before any of them is moved.

A row counts if its block of offsets does not agree (see `blocks`), or if its value is one of a block of 64 values
of which any may be in an anomaly: one that stands at two offsets, that failed or was aborted and was read, or
that a row of a block that does not agree has. All rows of such a value count, wherever they stand, so what is
concluded from them is what would have been concluded from all rows.

Why that is sound: in blocks that agree, acks, final read and consumers hold the same values at the same offsets.
So nothing there is lost, vanished or replaced. A value that stands at two offsets in such blocks stands twice in
the acks or in the final read, which the masks of values show: more rows than bits.
"""

from __future__ import annotations

from functools import reduce

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from analysis.reconcile.blocks import BLOCK, bit_of, block_of, may_be_hidden
from analysis.reconcile.tables import RecordTables

BLOCKS_MAX = 300_000
"""Above so many blocks that do not agree nothing is left out: finding rows in them costs as much as moving all."""


class Narrowed(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks of offsets and blocks of values whose rows count. `nothing`: there are none."""

    offsets: DataFrame
    values: DataFrame
    nothing: bool

    def rows(self, evidence: DataFrame) -> DataFrame:
        """The rows that count; `evidence` has run, topic, partition, offset and value."""
        offsets = self.offsets.withColumn("of_offset", F.lit(True))
        values = self.values.withColumn("of_value", F.lit(True))
        keyed = evidence.withColumns({"block": block_of("offset"), "values": block_of("value")})
        marked = keyed.join(F.broadcast(offsets), BLOCK, "left").join(F.broadcast(values), ["run", "values"], "left")
        return marked.where("of_offset OR of_value").drop("block", "values", "of_offset", "of_value")

    def close(self) -> None:
        """Give back what was kept."""
        self.offsets.unpersist()
        self.values.unpersist()


def narrow(tables: RecordTables, compared: DataFrame, evidence: DataFrame) -> Narrowed | None:
    """What counts; None: too much does, and every row may count.

    `compared` is `blocks.compared`; `evidence` has run, topic, partition, offset and value of all rows.
    """
    offsets = compared.where("NOT agree").select(*BLOCK).persist(StorageLevel.MEMORY_AND_DISK)
    differing = offsets.count()
    if differing > BLOCKS_MAX:
        offsets.unpersist()
        return None
    values = _suspect_values(tables)
    if differing:
        there = evidence.where("value IS NOT NULL").withColumn("block", block_of("offset"))
        there = there.join(F.broadcast(offsets), BLOCK, "left_semi")
        values = values.union(there.select("run", block_of("value").alias("values")))
    values = values.distinct().persist(StorageLevel.MEMORY_AND_DISK)
    suspect = values.count()
    narrowed = Narrowed(offsets=offsets, values=values, nothing=not differing and not suspect)
    if suspect > BLOCKS_MAX:
        narrowed.close()
        return None
    return narrowed


def _suspect_values(tables: RecordTables) -> DataFrame:
    """Blocks of values that stand twice in the acks or in the final read, or were read though they never should."""
    bit = bit_of("value")
    group = (F.col("run"), block_of("value").alias("values"))
    names = ("acks", "acks_mask", "failed", "hidden", "finals", "finals_mask", "read", "read_committed")

    def columns(**given: Column) -> list[Column]:
        return [given.get(name, F.lit(None)).cast("bigint").alias(name) for name in names]

    parts = []
    if tables.sends is not None:
        acked = (F.col("status") == "acked") & F.col("offset").isNotNull()
        sends = tables.sends.groupBy(*group).agg(
            F.count(F.when(acked, 1)).alias("acks"),
            F.bit_or(F.when(acked, bit)).alias("acks_mask"),
            F.bit_or(F.when(F.col("status") == "failed", bit)).alias("failed"),
            F.bit_or(F.when(may_be_hidden(), bit)).alias("hidden"),
        )
        parts.append(sends.select("run", "values", *columns(**{name: F.col(name) for name in names[:4]})))
    if tables.polls is not None:
        polls = (
            tables.polls.where("value IS NOT NULL")
            .groupBy(*group)
            .agg(
                F.count(F.when(F.col("final"), 1)).alias("finals"),
                F.bit_or(F.when(F.col("final"), bit)).alias("finals_mask"),
                F.bit_or(bit).alias("read"),
                F.bit_or(F.when(F.col("isolation") == "read_committed", bit)).alias("read_committed"),
            )
        )
        parts.append(polls.select("run", "values", *columns(**{name: F.col(name) for name in names[4:]})))
    whole = reduce(DataFrame.union, parts).groupBy("run", "values")
    merged = whole.agg(*(F.max(name).alias(name) for name in names))
    twice = (F.col("acks") > F.bit_count("acks_mask")) | (F.col("finals") > F.bit_count("finals_mask"))
    forbidden = (F.col("failed").bitwiseAND(F.col("read")) != 0) | (
        F.col("hidden").bitwiseAND(F.col("read_committed")) != 0
    )
    return merged.where(F.coalesce(twice, F.lit(False)) | F.coalesce(forbidden, F.lit(False))).select("run", "values")
