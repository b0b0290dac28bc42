"""Leaves out the rows that surely are in no anomaly, before any of them is moved.

A row of sends, polls or replicas counts in two cases. Its block of offsets differs (see
`differing`), or its value is in a block of 64 values of which any may be in an anomaly. Such a
value stands at two offsets, failed or was aborted and was read, or was acked or read in a block
that differs. All rows of such a value count, wherever they are, so the conclusions are those from
all rows. A poll that jumped, went back or is damaged is also kept, but conclusions from values do
not look at it.

Why that is sound: in blocks that do not differ, acks, final read and consumers hold the same values
at the same offsets. So nothing there is lost, vanished or replaced. A value that stands at two
offsets in such blocks stands twice in the acks or in the final read, which the masks of values
show: more rows than bits.
"""

from __future__ import annotations

from functools import reduce

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analysis.reconcile.blocks import BLOCK, bit_of, block_of, can_be_hidden
from analysis.reconcile.keeping import FrameKeeper
from analysis.reconcile.parts import union
from analysis.reconcile.tables import RecordTables

BLOCKS_MAX = 300_000
"""Above so many blocks that differ nothing is left out.

Finding rows in them then costs as much as moving all.
"""

_VALUES = ["run", "values"]


class NarrowedTables(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that count, and how many they are."""

    tables: RecordTables
    rows: int


def narrow(tables: RecordTables, differing: DataFrame, kept: FrameKeeper) -> NarrowedTables | None:
    """Return the rows of `tables` that count; None: too many may.

    `differing` has the columns `BLOCK`, also more than once. The result is kept as long as `kept`
    keeps.
    """
    offsets = kept.keep(differing.distinct())
    differs = offsets.count()
    if differs > BLOCKS_MAX:
        return None
    values = kept.keep(suspect_values(tables, offsets if differs else None))
    suspects = values.count() if values is not None else 0
    if suspects > BLOCKS_MAX:
        return None
    chosen: dict[str, DataFrame | None] = {"sends": None, "polls": None, "replicas": None}
    for name, of_offset, needed in (
        ("sends", F.when(_is_placed(), block_of("offset")), F.lit(False)),
        ("polls", block_of("offset"), _is_noteworthy()),
        ("replicas", block_of("offset"), F.lit(False)),
    ):
        rows = getattr(tables, name)
        if rows is None:
            continue
        counts = F.lit(False)
        rows = rows.withColumns({"block": of_offset, "values": block_of("value")})
        if differs:
            rows = rows.join(F.broadcast(offsets.withColumn("of_offset", F.lit(True))), BLOCK, "left")
            counts = counts | F.coalesce("of_offset", F.lit(False))
        if values is not None and suspects:
            rows = rows.join(F.broadcast(values.withColumn("of_value", F.lit(True))), _VALUES, "left")
            counts = counts | F.coalesce("of_value", F.lit(False))
        if name == "polls":
            rows = rows.withColumn("counts", counts)
        elif not (differs or suspects):
            continue
        rows = rows.where(counts | needed).drop("block", "values", "of_offset", "of_value")
        chosen[name] = kept.keep(rows)
    counted = [frame.select(F.lit(1)) for frame in chosen.values() if frame is not None]
    found = reduce(DataFrame.union, counted).count() if counted else 0
    return NarrowedTables(tables=msgspec.structs.replace(tables, **chosen), rows=found)


def _is_placed() -> Column:
    """Return whether a row of sends puts its value at an offset."""
    return (F.col("status") == "acked") & F.col("offset").isNotNull()


def _is_noteworthy() -> Column:
    """Return whether a row of polls is or may be in an anomaly, whatever its value."""
    before = F.col("prev_offset")
    moved = (F.col("offset") <= before) | (F.col("offset") - 1 > before)
    return F.col("value").isNull() | F.coalesce(moved, F.lit(False))


def suspect_values(tables: RecordTables, offsets: DataFrame | None) -> DataFrame | None:
    """Return the blocks of values that may be in an anomaly; None: there are neither sends nor polls.

    Their values stand twice in acks or final read, never should have been read, or are in one of
    the blocks `offsets`, if given.
    """
    bit = bit_of("value")
    group = (F.col("run"), block_of("value").alias("values"))
    names = ("acks", "acks_mask", "failed", "hidden", "finals", "finals_mask", "read", "read_committed", "differ")

    def columns(**given: Column) -> list[Column]:
        return [given.get(name, F.lit(None)).cast("bigint").alias(name) for name in names]

    def mark_blocks(rows: DataFrame, block: Column) -> DataFrame:
        if offsets is None:
            return rows.withColumn("differs", F.lit(None).cast("int"))
        there = F.broadcast(offsets.withColumn("differs", F.lit(1)))
        return rows.withColumn("block", block).join(there, BLOCK, "left")

    parts = []
    if tables.sends is not None:
        acked = _is_placed()
        sends = (
            mark_blocks(tables.sends, F.when(acked, block_of("offset")))
            .groupBy(*group)
            .agg(
                F.count(F.when(acked, 1)).alias("acks"),
                F.bit_or(F.when(acked, bit)).alias("acks_mask"),
                F.bit_or(F.when(F.col("status") == "failed", bit)).alias("failed"),
                F.bit_or(F.when(can_be_hidden(), bit)).alias("hidden"),
                F.max("differs").alias("differ"),
            )
        )
        parts.append(sends.select("run", "values", *columns(**{name: F.col(name) for name in (*names[:4], "differ")})))
    if tables.polls is not None:
        polls = (
            mark_blocks(tables.polls.where("value IS NOT NULL"), block_of("offset"))
            .groupBy(*group)
            .agg(
                F.count(F.when(F.col("final"), 1)).alias("finals"),
                F.bit_or(F.when(F.col("final"), bit)).alias("finals_mask"),
                F.bit_or(bit).alias("read"),
                F.bit_or(F.when(F.col("isolation") == "read_committed", bit)).alias("read_committed"),
                F.max("differs").alias("differ"),
            )
        )
        parts.append(polls.select("run", "values", *columns(**{name: F.col(name) for name in names[4:]})))
    if not parts:
        return None
    whole = union(parts).groupBy("run", "values")
    return suspicious(whole.agg(*(F.max(name).alias(name) for name in names)), F.col("differ").isNotNull())


def suspicious(blocks: DataFrame, *others: Column) -> DataFrame:
    """Return those blocks of values that stand twice or never should have been read, or are `others`."""
    twice = (F.col("acks") > F.bit_count("acks_mask")) | (F.col("finals") > F.bit_count("finals_mask"))
    forbidden = (F.col("failed").bitwiseAND(F.col("read")) != 0) | (
        F.col("hidden").bitwiseAND(F.col("read_committed")) != 0
    )
    suspect = [F.coalesce(one, F.lit(False)) for one in (twice, forbidden, *others)]
    return blocks.where(reduce(Column.__or__, suspect)).select(*_VALUES)
