"""passed-over: an acked record that the log still had reached no member of a group.

The rule: one item an offset and a group. Between two sessions of its members, or by a reset of a
member's position, the group left the offset out: no member returned it, it lies within no session, and
the group stood above it at the end. The record was acked, and it stands in the final log.

What the group was promised: every record from its first position on, and every record that was sent
after the group first had partitions of the topic. A new group with `auto.offset.reset=latest` begins at
the end of the partitions that it is first assigned, and leaves out nothing there. Of a partition that
it finds later, it leaves out what was sent before it found it.

The data: sends, polls of all members, and the assignments and resets in clients/.

Why it is sound: the record is in the final log, with the acked value. It was there when the group was
above it, because a member returned a record above it that stands in the final log, too (see the module
final_log_rows), or because the record was acked before a reset moved the position above it. A record of a
transaction counts only if that is known to be committed, and control records are not acked. Offsets above
the position that a group has at the end are not passed over: it may read them later.

No other kind counts it: poll-skip and unseen judge what lies within one session, and input-skipped judges
the groups of copiers.

When it cannot tell: without the assignments and resets, or where a clock was set back; if the member that
was last assigned the partition got nothing of it, while records are left out below; and of acked records
below the final log start, which the log may have lacked by then. A record that compaction removed, or that
was lost, is not judged.
"""

from __future__ import annotations

from analysis.judge.rules.anomaly import Anomaly
from analysis.judge.rules.groups.positions import PASSED, LeftOut
from analysis.reconcile.final_log_rows import session_ranges
from analysis.reconcile.undone_deletions import may_have_been_deleted
from analysis.reconcile.work import Work, items_of
from analysis.spark.columns import PARTITION, can_be_hidden
from analysis.spark.sql import DataFrame, F

_RECORD = [*PARTITION, "offset"]


def _items(work: Work) -> DataFrame | None:
    """Return one row for each item; None if there are none."""
    left_out, sessions = work.rows(PASSED), work.shared(session_ranges)
    if left_out is None or sessions is None or work.tables.sends is None or work.tables.polls is None:
        return None
    acked = work.tables.sends.where("status = 'acked' AND offset IS NOT NULL").where(~can_be_hidden())
    final = work.tables.polls.where("final AND value IS NOT NULL").select(*_RECORD, "value")
    left_out = (
        left_out.join(acked.select(*_RECORD, "value", "sent_ns", "done_ns"), _RECORD)
        .join(final, [*_RECORD, "value"], "left_semi")
        .join(F.broadcast(sessions), PARTITION, "left")
        .where(~may_have_been_deleted(work.runs, F.col("offset")))
    )
    is_promised = (F.col("offset") >= F.col("first")) | (F.col("sent_ns") >= F.col("since_ns"))
    returned_above = F.exists(
        "sessions",
        lambda one: F.array_contains("members", one["consumer"]) & (one["last"] > F.col("offset")),
    )
    was_there = F.coalesce(returned_above, F.lit(False)) | (F.col("done_ns") < F.col("reset_ns"))
    passed = (
        left_out.where(is_promised & was_there)
        .groupBy("group", *_RECORD)
        .agg(F.min("value").alias("value"), F.min("sent_ns").alias("sent_ns"))
    )
    return items_of(passed, RULE.name, ("group", "sent_ns"), value="value")


RULE = Anomaly(
    means="acked record of the final log that no member of a group got, between its sessions or by a reset",
    one="record that a group passed over",
    many="records that a group passed over",
    items=_items,
    questions=(LeftOut,),
    allowed_by="passed_over",
    despite="no member of a group got it, though it had been promised the record",
    headline=("acked record is passed over by its group", "acked records are passed over by their groups"),
    example="""
        Consumer 5, alone in its group, got offset 0, and offset 2 in its next session. Nobody got offset 1.
        setting: group=5
        sends: 0=1 1=2 2=3
        polls: consumer=5 0=1; consumer=5 session=2 2=3; final 0=1 1=2 2=3
        gives: offset=1 value=2
    """,
)
