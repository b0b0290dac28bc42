"""commit-back: a group's committed offset that was served went back.

The rule: one item an answer that shows nothing, or an older commit than the answer before it showed.
Older means: sent once, and acked before the other was sent.

The data: commits, and the answers that count, settled or not (the module commits). An answer that is
not settled was served all the same, and a member that asks then begins at the older commit.

Why it is sound: what a settled coordinator served was in the register when it answered, whatever became
of the commit's own answer. So after that the register cannot hold a commit that was applied earlier. A
coordinator of Kafka 3.x that is not settled may serve a commit that is above its HW, and so not
committed. Hence an item is `settled`, and may be held against Kafka, only if both answers are.

When it cannot tell: as the module commits says. Only answers in a row are compared, and only if one was
asked after the other was answered; a commit with an unknown outcome may be applied at any time.
"""

from __future__ import annotations

from analysis.judge.rules.anomaly import Anomaly
from analysis.judge.rules.groups.commits_asked import CommitsAsked
from analysis.reconcile import commits
from analysis.reconcile.work import Work, items_of
from analysis.spark.sql import Column, DataFrame, F, Window


def _items(work: Work) -> DataFrame | None:
    """Return one row for each item; None if nothing can be judged."""
    rows = commits.judged_commits(work.spark, work.tables, work.runs)
    if rows is None:
        return None
    in_order = Window.partitionBy(*commits.REGISTER).orderBy("asked_ns", "done_ns", "served")
    before = F.lag(F.struct("served", "made", "settled")).over(in_order)
    settled = F.col("settled") & F.col("before.settled")
    back = (
        commits.answers_of(work.spark, rows, work.tables.watermarks, work.runs)
        .withColumn("before", before)
        .where("before.made IS NOT NULL AND before.served.done_ns < asked_ns")
        .where("served.offset IS NULL OR (made.once AND made.done_ns < before.made.asked_ns)")
    )
    details: dict[str, str | Column] = {
        "group": "group",
        "commit": "before.made.commit",
        "sent_ns": "before.made.asked_ns",
        "earlier": "before.served",
        "served": "served",
        "settled": settled,
    }
    grouping = {"leader_epoch": "served.leader_epoch", "at_ns": "before.served.done_ns", "group": "group"}
    return items_of(back, RULE.name, details, offset="before.served.offset", settled=settled, **grouping)


RULE = Anomaly(
    means="answer of a coordinator with nothing, or an older commit than the answer before",
    one="committed offset that went back",
    many="committed offsets that went back",
    why_unknown=commits.why_commits_unknown,
    items=_items,
    groups=commits.GROUPS,
    questions=(CommitsAsked,),
    # A new coordinator serves an old commit until its HW catches up, to whoever asks in time.
    depends_on_chance=True,
    example="""
        A coordinator served offset 2 of group g, and then the older offset 1.
        partitions: leader=1; topic=__consumer_offsets at=1 partition_epoch=0
        watermarks: topic=__consumer_offsets high_watermark=9 at=2; topic=__consumer_offsets high_watermark=9 at=3
        commits: status=acked commit=1 offset=1; status=acked commit=2 offset=2;
          status=served broker=1 commit=2 offset=2; status=served broker=1 commit=1 offset=1
        sends: 0=1
        polls: final 0=1
        gives: offset=2 commit=2
    """,
)
