"""Finds the rows of a consumer that stand in the final log.

What a session passed over counts only below such a row. A row stands if the final read returned the
same offset, value and leader epoch (null is the same as null). By log matching, two logs that hold
the same record at an offset hold the same records below it. So what the final log has below such a
row was there when the consumer read the row. Below a row that does not stand the log may have been
cut off since, and filled with records that nobody could have read then.

How: in a block that agrees (see the module blocks) a row stands if the final read has its offset,
which masks say. Rows of the other blocks are put together with those of the final read.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analysis.reconcile.blocks import BITS, BLOCK, PARTITION
from analysis.reconcile.parts import union

_SESSION = [*PARTITION, "consumer", "session", "read_committed"]


def mark_final_log_rows(polls: DataFrame) -> DataFrame:
    """Return the rows of polls with `in_final_log`: true if these rows alone show it."""
    same = Window.partitionBy(*PARTITION, "offset", "value", "leader_epoch")
    return polls.withColumn("in_final_log", F.max("final").over(same))


def session_ranges(blocks: DataFrame, readable: DataFrame, polls: DataFrame) -> DataFrame:
    """Return how far each session of an ordinary consumer is judged: `sessions`.

    It is a list a partition. A session is judged from its `first` row to its `last` that stands.
    `blocks` and `readable` are `poll_blocks` and `readable` of the module blocks; `polls` has at
    least the rows of blocks that do not agree.
    """
    shared = F.col("all.mask").bitwiseAND(F.col("agreed_mask"))
    highest = F.shiftleft("block", BITS) + F.length(F.bin(shared)) - 1
    by_block = (
        blocks.where("NOT final")
        .join(readable.select(*BLOCK, "agreed_mask"), BLOCK, "left")
        .select(*_SESSION, "first", F.when(shared != 0, highest).alias("last"))
    )
    reached = (
        union([by_block, _standing_rows(polls)])
        .groupBy(*_SESSION)
        .agg(F.min("first").alias("first"), F.max("last").alias("last"))
    )
    return (
        reached.where("last IS NOT NULL")
        .groupBy(*PARTITION)
        .agg(F.collect_list(F.struct("consumer", "session", "read_committed", "first", "last")).alias("sessions"))
    )


def _standing_rows(polls: DataFrame) -> DataFrame:
    """Return the rows of ordinary consumers that stand: how far each session got by them."""
    return (
        mark_final_log_rows(polls)
        .where("in_final_log AND NOT final")
        .withColumn("read_committed", F.col("isolation") == "read_committed")
        .select(*_SESSION, F.lit(None).cast("bigint").alias("first"), F.col("offset").alias("last"))
    )
