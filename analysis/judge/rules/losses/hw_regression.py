"""hw-regression: the HW that a leader served went below one served before.

The rule: one item an observation that is below an earlier one of the same or an older leader epoch.
*Earlier* means answered before the other was asked.

The data: watermarks of source list_offsets with a leader epoch. The HW in fetch responses and in
checkpoints may rightly lag, so those are not used.

Why it is sound: only the leader answers ListOffsets, under its epoch, and it answers
OFFSET_NOT_AVAILABLE while its HW is below the start of its epoch. So across leaders that kept the
log the answers do not go down. The exception is a first answer with a HW from before
(docs/findings/stale-latest-offset.md): it was served all the same. Answers that were in flight at
the same time have no order, so `asked_ns` is needed. A deposed leader's late answer carries its old
epoch, and is not compared with a newer epoch.

One drop is named once, as `earlier` of the items that began it. The earlier HW is that of the
leader's own epoch or the epoch before; otherwise it is the highest HW before, unless a drop that is
already named has passed that level since.

When it cannot tell: an observation without a leader epoch is not judged. An observation without
`asked_ns` is compared only as the earlier of two, for which its answer's time is enough. Where the
clock was set back (the module clock), no two observations have an order.

How: an observation must find the highest HW among all with an epoch up to its own and a time before
its own: two orders at once. Epochs are ranked, and cut into blocks of 1, 2, 4, ... ranks. An
observation that was answered is in the one block of each size that holds its rank. An observation
that was asked looks into the few blocks that make up all ranks below its own, and into its own
rank. In each block one running maximum over time is the answer: n log n in all, with a window and
no join.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from analysis.judge.rules.anomaly import Anomaly
from analysis.reconcile.model import GroupsOfKind, HwRegression
from analysis.reconcile.work import Work, items_of
from analysis.record.groups import Ints
from analysis.record.record import Record
from analysis.record.scans import Rows
from analysis.rows.facts import Facts
from analysis.rows.question import KindAnswer, KindQuestion, Place, RunSums
from analysis.spark.columns import runs_where
from analysis.spark.parts import placed_by
from analysis.spark.sql import Column, DataFrame, F, Window
from analysis.spark.tables import RecordTables

SOURCE = "list_offsets"
WHERE = ("run", "topic", "partition")
_OBSERVED = ("high_watermark", "leader_epoch", "broker", "asked_ns", "at_ns")


class Lower(KindQuestion):
    """Is there a HW that was asked for below one that was answered before, in any leader epoch? Else none went back."""

    reads: Mapping[str, tuple[str, ...]] = {"watermarks": ()}
    whole_tables = ("watermarks",)

    def __init__(self, run: Record, folder: Callable[[], Path]) -> None:
        super().__init__(run, folder)
        self._answers: dict[Place, list[Ints]] = {}

    def add(self, rows: Rows) -> None:
        """Keep the answers: when each came, its HW, and whether it is known when the leader was asked."""
        columns = [rows.numbers("at_ns"), rows.numbers("high_watermark"), rows.known("asked_ns").astype(np.int64)]
        answers, counts = np.stack(columns, 1), rows.where_word("source", SOURCE) & rows.known("leader_epoch")
        for (topic, partition), here in rows.parts("partition"):
            self._answers.setdefault((topic, partition), []).append(answers[here[counts[here]]])

    def answer(self, summed: RunSums) -> KindAnswer:
        """Return the answer, of which no rows are chosen."""
        return KindAnswer(is_possible=not summed.facts.clock_went_back and any(map(_has_lower, self._answers.values())))


def _has_lower(parts: Sequence[Ints]) -> bool:
    answers = np.concatenate(parts)
    answers = answers[np.lexsort((-answers[:, 1], answers[:, 0]))]
    highest = np.maximum.accumulate(answers[:, 1])
    return bool(((highest[:-1] > answers[1:, 1]) & (answers[1:, 2] == 1)).any())


def why_no_hw_is_judged(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged."""
    lacking = facts.missing_or_empty("watermarks")
    if lacking is not None:
        return lacking
    served = [one for one in facts.served if one.source == SOURCE]
    if not served:
        return "no leader was asked for its HW (watermarks of source list_offsets)"
    judged = [one for one in served if one.leader_epoch is not None]
    if not judged:
        return "the HWs that leaders served have no leader epoch"
    if not any(one.asked for one in judged):
        return "it is not known when the leaders were asked for their HW (asked_ns)"
    if facts.clock_went_back:
        return (
            "the clock was set back while leaders were asked for their HW, so the order of their answers is not known"
        )
    return None


def suspicious_observations(tables: RecordTables, runs: Sequence[Facts]) -> DataFrame | None:
    """Return the partitions in which any HW is below an earlier one, seldom any.

    Epochs do not matter here. Only such observations (`suspect`) can be items, and only those need
    to look. None if nothing can be judged.
    """
    if tables.watermarks is None or all(why_no_hw_is_judged(facts) for facts in runs):
        return None
    judged = runs_where(runs, lambda facts: why_no_hw_is_judged(facts) is None)
    observed = tables.watermarks.where((F.col("source") == SOURCE) & F.col("leader_epoch").isNotNull() & judged)
    by_time = Window.partitionBy(*WHERE).orderBy("at_ns").rowsBetween(Window.unboundedPreceding, -1)
    suspect = F.coalesce(F.max("high_watermark").over(by_time) > F.col("high_watermark"), F.lit(False))
    partition = Window.partitionBy(*WHERE)
    return (
        placed_by(observed, *WHERE)
        .withColumn("suspect", suspect & F.col("asked_ns").isNotNull())
        .withColumn("suspects", F.max("suspect").over(partition))
        .where("suspects")
    )


def _items(work: Work) -> DataFrame | None:
    """Return one row for each item; None if nothing can be judged."""
    suspects = suspicious_observations(work.tables, work.runs)
    if suspects is None:
        return None
    by_epoch = Window.partitionBy(*WHERE).orderBy("leader_epoch")
    ranked = suspects.select(
        *WHERE,
        *_OBSERVED,
        "suspect",
        (F.dense_rank().over(by_epoch) - 1).alias("rank"),
        F.row_number().over(by_epoch).alias("number"),
    )
    earlier = F.greatest("own", "previous", "older")
    found = _with_earlier(ranked).where(earlier["high_watermark"] > F.col("high_watermark"))
    details: dict[str, str | Column] = {**dict(zip(_OBSERVED, _OBSERVED, strict=True)), "earlier": earlier}
    grouping = {"leader_epoch": "leader_epoch", "at_ns": "at_ns", "broker": "broker", "earlier": "drop"}
    return items_of(_with_drop(found), RULE.name, details, offset="high_watermark", **grouping)


def _with_earlier(ranked: DataFrame) -> DataFrame:
    """Return each suspect with the highest earlier observation where it looks."""
    highest = F.max("rank").over(Window.partitionBy(*WHERE))
    events = ranked.withColumn("highest", highest).withColumn("event", F.explode(_events())).select("*", "event.*")
    block = Window.partitionBy(*WHERE, "size", "block").orderBy("time", F.col("looks").isNull())
    seen = F.when(F.col("looks").isNull(), F.struct("high_watermark", "at_ns", "leader_epoch"))
    so_far = block.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    looked = events.withColumn("best", F.max(seen).over(so_far)).where("looks IS NOT NULL")
    return looked.groupBy(*WHERE, "number", *_OBSERVED).agg(
        *(F.max(F.when(F.col("looks") == looks, F.col("best"))).alias(looks) for looks in ("own", "previous", "older"))
    )


def _with_drop(found: DataFrame) -> DataFrame:
    """Return the items, with the HW that each went back from (`drop`).

    `drop` is null where the HW only stays low after a drop that is named. It does between the two
    HWs of a named drop, be it its own or an earlier one.
    """
    near = F.greatest("own", "previous")
    anew = F.coalesce(near["high_watermark"] > F.col("high_watermark"), F.lit(False))
    group = Window.partitionBy(*WHERE, "leader_epoch", "anew")
    fall = F.struct(
        "leader_epoch",
        (~F.col("anew")).alias("stays"),
        F.max("drop.high_watermark").over(group).alias("from"),
        F.max("high_watermark").over(group).alias("highest"),
        F.min("high_watermark").over(group).alias("lowest"),
        F.max("drop.leader_epoch").over(group).alias("since"),
    )
    falls = F.array_sort(F.collect_set("fall").over(Window.partitionBy(*WHERE)))
    named = _named_drops("falls")
    own = F.exists(named, lambda one: one["stays"] & (one["leader_epoch"] == F.col("leader_epoch")))
    passed = _has_passed(named, F.col("high_watermark"), F.col("drop.leader_epoch"))
    return (
        found.withColumn("anew", anew)
        .withColumn("drop", F.when(F.col("anew"), near).otherwise(F.col("older")))
        .withColumn("fall", fall)
        .withColumn("falls", falls)
        .withColumn("drop", F.when(F.col("anew") | own | ~passed, F.col("drop")))
    )


def _named_drops(falls: str) -> Column:
    """Return those of a partition's falls, by epoch, that are drops of their own."""

    def stays_low(named: Column, one: Column) -> Column:
        lowest, highest = (_has_passed(named, one[name], one["since"]) for name in ("lowest", "highest"))
        return one["stays"] & lowest & highest

    return F.aggregate(
        falls,
        F.slice(falls, 1, 0),
        lambda named, one: F.when(stays_low(named, one), named).otherwise(F.array_append(named, one)),
    )


def _has_passed(falls: Column, high_watermark: Column, since: Column) -> Column:
    """Return whether a fall under a later epoch than `since` went past a HW."""
    return F.exists(
        falls,
        lambda one: (one["leader_epoch"] > since) & (one["lowest"] <= high_watermark) & (one["from"] > high_watermark),
    )


def _events() -> Column:
    """Return what an observation does in which block, and when.

    It is there to be found (`looks` null), or it looks.
    """
    sizes = F.sequence(F.lit(0), F.floor(F.log2(F.col("highest") + 1)).cast("int"))
    answers = F.transform(sizes, lambda size: _event(size, _shift("rank", size), "at_ns", None))
    # The ranks below `below` are, for each binary digit of it that is set, the block that ends at that digit.
    below = F.greatest(F.col("rank") - 1, F.lit(0))
    digits = F.filter(sizes, lambda size: _shift(below, size).bitwiseAND(F.lit(1)) == 1)
    own = F.array(_event(F.lit(0), F.col("rank"), "asked_ns", "own"))
    previous = F.array(_event(F.lit(0), F.col("rank") - 1, "asked_ns", "previous"))
    older = F.transform(digits, lambda size: _event(size, _shift(below, size) - 1, "asked_ns", "older"))
    return F.when(F.col("suspect"), F.concat(answers, own, previous, older)).otherwise(answers)


def _event(size: Column, block: Column, time: str, looks: str | None) -> Column:
    return F.struct(
        size.alias("size"),
        block.alias("block"),
        F.col(time).alias("time"),
        F.lit(looks).cast("string").alias("looks"),
    )


def _shift(value: Column | str, digits: Column) -> Column:
    """Return `value` without its lowest binary digits."""
    return F.call_function("shiftright", F.col(value) if isinstance(value, str) else value, digits)


RULE = Anomaly(
    means="served HW below a HW served before, under the same or an older leader epoch",
    one="fall of the HW",
    many="falls of the HW",
    why_unknown=why_no_hw_is_judged,
    items=_items,
    # The lowest HW under each leader epoch that began a drop, with the highest HW before.
    groups=GroupsOfKind(
        into=HwRegression,
        by=("leader_epoch",),
        figures=(
            "max(earlier).high_watermark AS from_",
            "max(earlier).at_ns AS earlier_at_ns",
            "max(earlier).leader_epoch AS earlier_leader_epoch",
            "min(struct(offset, at_ns, leader_epoch, broker)).offset AS to",
            "min(struct(offset, at_ns, leader_epoch, broker)).at_ns AS at_ns",
            "min(struct(offset, at_ns, leader_epoch, broker)).broker AS broker",
        ),
        where="earlier IS NOT NULL",
    ),
    questions=(Lower,),
    has_own_prediction=True,
    expected_by="hw_regression",
    example="""
        Broker 1 served the HW 10. Broker 2 then served 5 under the next leader epoch.
        watermarks: high_watermark=10; broker=2 leader_epoch=1 high_watermark=5
        gives: offset=5 leader_epoch=1
    """,
)
