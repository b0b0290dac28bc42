"""commit-lost: a group does not get back a commit that its coordinator acked.

The rule: one item a commit. Its coordinator was asked after the commit was acked, when no commit that
was sent later had been acked; and it answered that the group has nothing, or a commit that was acked
before this one was sent. The commit that an answer must show at least is the newest: the last one sent
of those that were acked before the question.

The data: commits, and the answers that count and are settled (the module commits).

Why it is sound: a coordinator acks a commit once every in-sync replica has it, and serves it from then
on. The commit that was served can be in the register now only if it was applied after the lost one.
That is ruled out only if it was sent once and acked before the lost one was sent. So a served commit with an
unknown outcome, or one that no journal has, is no evidence. Nor is a commit lost that any later answer shows.

When it cannot tell: as the module commits says. A commit that a later one replaced before anybody
asked was lost to nobody.
"""

from __future__ import annotations

from analysis.judge.rules.anomaly import Anomaly
from analysis.judge.rules.groups.commits_asked import CommitsAsked
from analysis.reconcile import commits
from analysis.reconcile.work import Work, items_of
from analysis.spark.sql import DataFrame, F, Window


def _items(work: Work) -> DataFrame | None:
    """Return one row for each item; None if nothing can be judged."""
    rows = commits.judged_commits(work.spark, work.tables, work.runs)
    if rows is None:
        return None
    missing = _with_newest(
        commits.answers_of(work.spark, rows, work.tables.watermarks, work.runs), commits.writes_of(rows)
    ).where(
        "settled AND newest IS NOT NULL AND (served.offset IS NULL OR (made.once AND made.done_ns < newest.asked_ns))"
    )
    shown = (
        rows.where("status = 'served' AND commit IS NOT NULL")
        .groupBy(*commits.REGISTER, F.col("commit").alias("lost_commit"))
        .agg(F.max("asked_ns").alias("shown_ns"))
    )
    lost = (
        missing.withColumn("lost_commit", F.col("newest.commit"))
        .join(shown, [*commits.REGISTER, "lost_commit"], "left")
        .where("shown_ns IS NULL OR shown_ns <= done_ns")
        .groupBy(*commits.REGISTER, "lost_commit")
        .agg(F.min("newest").alias("newest"), F.min("served").alias("served"))
    )
    details = {
        "group": "group",
        "commit": "lost_commit",
        "sent_ns": "newest.asked_ns",
        "acked_ns": "newest.done_ns",
        "served": "served",
    }
    grouping = {"leader_epoch": "served.leader_epoch", "at_ns": "newest.done_ns", "group": "group"}
    return items_of(lost, RULE.name, details, offset="newest.offset", **grouping)


def _with_newest(answers: DataFrame, writes: DataFrame) -> DataFrame:
    """Return the answers with the newest commit that was acked before the question (`newest`)."""
    acked = writes.where("made.acked").select(
        *commits.REGISTER,
        F.col("made.done_ns").alias("time"),
        F.lit(True).alias("writes"),
        F.col("made").alias("made_then"),
    )
    asked = answers.withColumns({"time": F.col("asked_ns"), "writes": F.lit(False)})
    so_far = Window.partitionBy(*commits.REGISTER).orderBy("time", "writes").rowsBetween(Window.unboundedPreceding, -1)
    both = asked.unionByName(acked, allowMissingColumns=True)
    return both.withColumn("newest", F.max("made_then").over(so_far)).where("NOT writes")


RULE = Anomaly(
    means="acked commit of a group that its coordinator no longer served",
    one="commit that its group did not get back",
    many="commits that their group did not get back",
    why_unknown=commits.why_commits_unknown,
    items=_items,
    groups=commits.GROUPS,
    questions=(CommitsAsked,),
    is_loss=True,
    expected_by="loss.commits",
    headline=("acked commit of groups is lost", "acked commits of groups are lost"),
    example="""
        A coordinator acked offset 1 of group g. Then it answered that the group has none.
        partitions: leader=1; topic=__consumer_offsets at=1 partition_epoch=0
        watermarks: topic=__consumer_offsets high_watermark=9 at=2; topic=__consumer_offsets high_watermark=9 at=3
        commits: status=acked commit=1 offset=1; status=served broker=1
        sends: 0=1
        polls: final 0=1
        gives: offset=1 commit=1
    """,
)
