"""unseen: a record of the final log that consumers passed by and never got.

The rule: one item an offset of the final read that one session of an ordinary consumer passed over,
and that no ordinary consumer returned. The session has a row below the offset, and above it a row
that stands in the final log (the final read has the same offset, value and leader epoch).

The data: polls, the final read among them. For sessions of read_committed consumers also sends: a
value of a transaction that is not known to be committed may rightly be hidden from them. So may,
where there are transactions, a value without a row in sends.

Why it is sound: the record exists, because the final read got it. It was there when the session
read the row above, because that row stands in the final log, and logs that hold the same record
hold the same below it (see the module final_log_rows). So the session should have returned it. Below a
row that was cut off since, the record may have been put there after the session had passed over
aborted or control records. Between two sessions the position may have been set anywhere; that is
not judged.

When it cannot tell: without polls or a final read; above a session's last row that stands. Where
the run is not complete the final read may have stopped anywhere: what it did not reach is not
known. Nor can it tell of an offset below a log start to which a step deleted records, where the final
log begins below that: the session may have passed by while the record was deleted.
"""

from __future__ import annotations

from analysis.judge.rules.anomaly import Anomaly
from analysis.reconcile.final_log_rows import OfFinalRead, readable_blocks, session_ranges
from analysis.reconcile.undone_deletions import may_have_been_deleted, with_undone_deletions
from analysis.reconcile.work import Work, items_of
from analysis.record.groups import BITS
from analysis.rows.facts import Facts
from analysis.rows.question import Place, RunSums
from analysis.spark.columns import PARTITION
from analysis.spark.sql import Column, DataFrame, F


class Unseen(OfFinalRead):
    """Is there an offset of the final read that an ordinary consumer may have passed over?"""

    def is_possible(self, summed: RunSums, place: Place) -> bool:
        """Return whether a block has such an offset."""
        return bool(summed.partitions[place].kept.passed_over.any())


def why_unknown(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged."""
    lacking = facts.missing_or_empty("polls")
    if lacking is None and facts.final_consumer is not None and not facts.complete:
        return "the run is not complete: what the final read did not reach is not known"
    return lacking or facts.without_final_read() or with_undone_deletions(facts)


def _items(work: Work) -> DataFrame | None:
    """Return one row for each item; None if nothing can be judged."""
    readable, sessions = work.shared(readable_blocks), work.shared(session_ranges)
    if readable is None or sessions is None:
        return None
    left = readable.withColumns(
        {name: F.col(name).bitwiseAND(F.bitwise_not("returned")) for name in ("open_mask", "shown_mask")}
    )
    left = left.where("open_mask <> 0").join(F.broadcast(sessions), PARTITION)
    offset = F.shiftleft("block", BITS) + F.col("bit")
    offsets = left.select("*", F.explode(F.sequence(F.lit(0), F.lit(2**BITS - 1))).alias("bit"))
    offsets = offsets.where(_has_bit("open_mask")).select(
        *PARTITION, offset.alias("offset"), _has_bit("shown_mask").alias("shown"), "sessions"
    )
    offsets = offsets.where(~may_have_been_deleted(work.runs, F.col("offset")))
    passed = F.filter(
        "sessions",
        lambda one: (
            (one["first"] < F.col("offset"))
            & (one["last"] > F.col("offset"))
            & (~one["read_committed"] | F.col("shown"))
        ),
    )
    by = F.get(F.array_sort(F.transform(passed, lambda one: F.struct(one["consumer"], one["session"]))), F.lit(0))
    found = offsets.where(F.size(passed) > 0)
    return items_of(found, RULE.name, {"passed_over_by": by, "sessions": F.size(passed)})


def _has_bit(mask: str) -> Column:
    return F.call_function("shiftright", F.col(mask), F.col("bit")).bitwiseAND(F.lit(1)) == 1


RULE = Anomaly(
    means="offset of the final log that a session passed over and no consumer returned",
    one="record that consumers passed by",
    many="records that consumers passed by",
    why_unknown=why_unknown,
    items=_items,
    questions=(Unseen,),
    despite="consumers passed it by, and none got it",
    example="""
        The final log has values 1, 2 and 3. Consumer 1 got 1 and 3 in one session, and nobody got 2.
        polls: 0=1 2=3; final 0=1 1=2 2=3
        gives: offset=1
    """,
)
