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

from collections.abc import Sequence

import pyarrow as pa

from analysis.reconcile.work import Work
from analysis.rows.clients import ConsumerSession
from analysis.rows.compare import Blocks
from analysis.rows.question import KindAnswer, KindQuestion, Place, RowType, RunSums
from analysis.spark.columns import BLOCK, PARTITION, bit_of, block_of, can_be_hidden
from analysis.spark.parts import union
from analysis.spark.sql import DataFrame, F, Window
from ebbtide.record.tables import schema_of_rows

_SESSION = [*PARTITION, "consumer", "session", "read_committed"]
_READABLE = schema_of_rows("""
    run int32 topic string partition int32 block int64 open_mask int64 shown_mask int64 agreed_mask int64
    returned int64
""")
_SESSIONS = schema_of_rows("""
    run int32 topic string partition int32 consumer int32 session int32 read_committed bool first int64
    last int64
""")


def _readable(run: int, topic: str, partition: int, kept: Blocks, *, all_shown: bool) -> pa.Table:
    """Return kept blocks as rows of `READABLE`; `all_shown` as in `PartitionEnds`."""
    count = len(kept.block)
    same = {"run": run, "topic": topic, "partition": partition}
    columns = [pa.repeat(pa.scalar(one, _READABLE.field(name).type), count) for name, one in same.items()]
    shown = pa.array(kept.final) if all_shown else pa.array(kept.shown, mask=~kept.acks_final)
    columns += [pa.array(kept.block), pa.array(kept.final), shown, pa.array(kept.final, mask=~kept.agree)]
    return pa.Table.from_arrays([*columns, pa.array(kept.returned)], schema=_READABLE)


def _readable_rows(summed: RunSums) -> pa.Table:
    asked = [one for one in summed.asked if isinstance(one, OfFinalRead)]
    places = sorted({place for one in asked for place in one.places})
    found = [
        _readable(summed.facts.run, *place, summed.partitions[place].kept, all_shown=summed.ends[place].all_shown)
        for place in places
    ]
    return pa.concat_tables([_READABLE.empty_table(), *found])


def _sessions_of(summed: RunSums) -> pa.Table:
    """Return the sessions as rows of `SESSIONS`."""
    rows = [
        {
            "run": summed.facts.run,
            "topic": one.topic,
            "partition": one.partition,
            **{name: getattr(one, name) for name in _SESSION[3:]},
            "first": summed.clients.first_offsets[number],
            "last": summed.reached.get(number),
        }
        for number, one in enumerate(summed.clients.sources)
        if isinstance(one, ConsumerSession) and not one.final
    ]
    return pa.Table.from_pylist(rows, schema=_SESSIONS)


READABLE = RowType("readable", _READABLE, _readable_rows)
"""The offsets of the final read by block.

`open_mask` has all of them, `shown_mask` those that read_committed lets through, null where each value must be looked
up in sends. `agreed_mask` is `open_mask` where the block agrees, else null. `returned` has the offsets that any
ordinary consumer returned.
"""

SESSIONS = RowType("sessions", _SESSIONS, _sessions_of)
"""Each session of an ordinary consumer: its first offset, and the last that stands by blocks that agree."""


class OfFinalRead(KindQuestion):
    """Asks of each partition whether consumers may have passed over an offset of the final read."""

    row_types = (READABLE, SESSIONS)
    places: Sequence[Place] = ()

    def is_possible(self, summed: RunSums, place: Place) -> bool:
        """Return whether they may have."""
        raise NotImplementedError

    def answer(self, summed: RunSums) -> KindAnswer:
        """Return the blocks of which acks do not say what read_committed consumers may get."""
        self.places = [place for place in summed.partitions if self.is_possible(summed, place)]
        kept = {place: summed.partitions[place].kept for place in self.places}
        unclear = {at: one.block[~one.acks_final] for at, one in kept.items() if not summed.ends[at].all_shown}
        return KindAnswer(is_possible=bool(self.places), offsets=unclear)


def mark_final_log_rows(polls: DataFrame) -> DataFrame:
    """Return the rows of polls with `in_final_log`: true if these rows alone show it."""
    same = Window.partitionBy(*PARTITION, "offset", "value", "leader_epoch")
    return polls.withColumn("in_final_log", F.max("final").over(same))


def readable_blocks(work: Work) -> DataFrame | None:
    """Return `READABLE` with each `shown_mask`; None without such rows.

    Where acks do not say which offsets hold values of transactions that may be hidden, each value of the final read is
    looked up in sends.
    """
    readable, tables = work.rows(READABLE), work.tables
    if readable is None or tables.polls is None:
        return None
    if not any(one[READABLE.name]["shown_mask"].null_count for one in work.made if READABLE.name in one):
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
    return work.keep(
        readable.join(seen, BLOCK, "left").select(*BLOCK, "open_mask", shown_mask, "agreed_mask", "returned")
    )


def session_ranges(work: Work) -> DataFrame | None:
    """Return how far each session of an ordinary consumer is judged: `sessions`; None without such rows.

    It is a list a partition. A session is judged from its `first` row to its `last` that stands. `SESSIONS` say so by
    blocks that agree; `polls` has at least the rows of the other blocks.
    """
    sessions, polls = work.rows(SESSIONS), work.tables.polls
    if sessions is None or polls is None:
        return None
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
