"""Finds the rows of a consumer that stand in the final log.

A row *stands* if the final read returned the same offset, value and leader epoch (null is the same
as null). Offsets that a session passed over count only if they are below a row that stands. By log
matching, two logs that hold the same record at an offset hold the same records below it. So what the
final log has below such a row was there when the consumer read the row. Below a row that does not
stand, the log may have been truncated since, and filled with records that nobody could have read
then.

How: in a block that agrees (the module compare of rows) a row stands if the final read has its offset,
which masks say. Rows of the other blocks are put together with those of the final read.
"""

from __future__ import annotations

from analysis.spark.columns import BLOCK, PARTITION, bit_of, block_of, can_be_hidden
from analysis.spark.parts import union
from analysis.spark.sql import DataFrame, F, Window
from analysis.spark.tables import RecordTables

_SESSION = [*PARTITION, "consumer", "session", "read_committed"]


def mark_final_log_rows(polls: DataFrame) -> DataFrame:
    """Return the rows of polls with `in_final_log`: true if these rows alone show it."""
    same = Window.partitionBy(*PARTITION, "offset", "value", "leader_epoch")
    return polls.withColumn("in_final_log", F.max("final").over(same))


def readable_blocks(readable: DataFrame, tables: RecordTables) -> DataFrame:
    """Return `readable` (compare.READABLE) with each `shown_mask`.

    Where acks do not say which offsets hold values of transactions that may be hidden, each value of the final read is
    looked up in sends.
    """
    if tables.polls is None:
        return readable
    unclear = readable.where("shown_mask IS NULL").select(*BLOCK)
    rows = tables.polls.where("final AND value IS NOT NULL").withColumn("block", block_of("offset"))
    rows = rows.join(unclear, BLOCK, "left_semi").select(*BLOCK, "offset", "value")
    shown = F.lit(False)
    if tables.sends is not None:
        of_value = tables.sends.groupBy("run", "value").agg(F.bool_or(can_be_hidden()).alias("hidden"))
        rows = rows.join(of_value, ["run", "value"], "left")
        shown = ~F.coalesce("hidden", F.lit(True))
    seen = rows.groupBy(*BLOCK).agg(F.bit_or(F.when(shown, bit_of("offset"))).alias("looked_up"))
    shown_mask = F.coalesce("shown_mask", "looked_up", F.lit(0)).alias("shown_mask")
    return readable.join(seen, BLOCK, "left").select(*BLOCK, "open_mask", shown_mask, "agreed_mask", "returned")


def session_ranges(sessions: DataFrame, polls: DataFrame) -> DataFrame:
    """Return how far each session of an ordinary consumer is judged: `sessions`.

    It is a list a partition. A session is judged from its `first` row to its `last` that stands. The rows `sessions`
    (compare.SESSIONS) say so by blocks that agree; `polls` has at least the rows of the other blocks.
    """
    reached = (
        union([sessions.select(*_SESSION, "first", "last"), _standing_rows(polls)])
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
