"""poll-skip: within one session, a consumer jumped over an offset that exists.

The rule: one item a row, however many offsets it jumped over. They must stand in the final log, as
must the row itself (the final read has the same offset, value and leader epoch). The consumer must
be allowed to see them.

The data: polls with a `prev_offset`, of every consumer; the final read. For a read_committed
consumer also sends: a value of a transaction that is not known to be committed may rightly be
hidden from it. In a run with transactions, a value without a row in sends may be hidden as well.

Why it is sound: between two offsets that one session returned one after the other, every record
should have been returned. Only what exists counts: holes of lost records, control records, and
offsets below the log start do not. And only what existed then counts: the row that ended the jump
stands in the final log, and logs that hold the same record hold the same below it (see the module
final_log_rows). A jump over aborted or control records does not count if its end was cut off since,
whatever was put at those offsets later.

When it cannot tell: without polls or a final read, or when no row says what was returned before it;
for a row that the final read does not have, because it was cut off, deleted, or hidden from a
read_committed final read. Where the run is not complete the final read may have stopped anywhere:
what it did not reach is not known. Nor can it where the final log begins below a log start to which a
step deleted records: a jump that begins below it may have passed over what was deleted at that time,
and came back when the brokers crashed.

How: the final read's offsets are counted up block by block, and each end of a jump looks up how
many are below it. A jump over many offsets costs what a jump over one costs.
"""

from __future__ import annotations

from analysis.judge.rules.anomaly import Anomaly
from analysis.reconcile.final_log_rows import mark_final_log_rows
from analysis.reconcile.items import item
from analysis.reconcile.undone_deletions import may_have_been_deleted, with_undone_deletions
from analysis.reconcile.work import Work
from analysis.rows.facts import Facts
from analysis.rows.groups import BITS
from analysis.rows.questions import SKIPS
from analysis.spark.columns import BLOCK, PARTITION, block_of
from analysis.spark.parts import in_one_part
from analysis.spark.sql import DataFrame, F, Window

_JUMP = ["offset", "value", "prev_offset", "consumer", "session", "polled_ns"]


def why_unknown(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged."""
    lacking = facts.missing_or_empty("polls")
    if lacking is not None:
        return lacking
    if facts.final_consumer is None:
        return "there was no final read"
    if not any(polls.chained for polls in facts.polls) and any(polls.rows > 1 for polls in facts.polls):
        return "what each poll returned before is not known (prev_offset)"
    if not facts.complete:
        return "the run is not complete: what the final read did not reach is not known"
    return facts.without_final_read() or with_undone_deletions(facts)


def _items(work: Work) -> DataFrame | None:
    """Return one row for each item; None if there are none.

    `readable` is `blocks.readable_blocks`.
    """
    if work.tables.polls is None or work.readable is None:
        return None
    if not any(polls.jumped for facts in work.runs for polls in facts.polls):
        return None
    committed = F.col("isolation") == "read_committed"
    jumps = mark_final_log_rows(work.tables.polls).where("offset - 1 > prev_offset")
    jumps = jumps.where(~may_have_been_deleted(work.runs, F.col("prev_offset") + 1))
    jumps = jumps.select(
        *PARTITION, *_JUMP, committed.alias("committed"), "in_final_log", F.monotonically_increasing_id().alias("jump")
    )
    both = F.explode(F.array(F.col("prev_offset") + 1, F.col("offset"))).alias("end")
    ends = jumps.select("*", both).withColumn("block", block_of("end"))
    counted = in_one_part(ends.unionByName(work.readable, allowMissingColumns=True))
    before = Window.partitionBy(*PARTITION).orderBy("block").rangeBetween(Window.unboundedPreceding, -1)
    here = Window.partitionBy(*BLOCK)
    place = F.col("end").bitwiseAND(F.lit(2**BITS - 1)).cast("int")
    lower = F.bitwise_not(F.call_function("shiftleft", F.lit(-1).cast("bigint"), place))
    below = {
        name: F.coalesce(F.sum(F.bit_count(mask).cast("bigint")).over(before), F.lit(0))
        + F.bit_count(F.coalesce(F.max(mask).over(here), F.lit(0)).bitwiseAND(lower))
        for name, mask in (("open", "open_mask"), ("shown", "shown_mask"))
    }
    there = F.call_function("shiftright", F.max("agreed_mask").over(here), place).bitwiseAND(F.lit(1)) == 1
    in_final_log = F.col("in_final_log") | (F.coalesce(there, F.lit(False)) & (F.col("end") == F.col("offset")))
    seen = counted.withColumns(below | {"in_final_log": in_final_log}).where("jump IS NOT NULL")
    found = seen.groupBy(*PARTITION, *_JUMP, "committed", "jump").agg(
        F.bool_or("in_final_log").alias("in_final_log"), *((F.max(name) - F.min(name)).alias(name) for name in below)
    )
    skipped = F.when(F.col("committed"), F.col("shown")).otherwise(F.col("open"))
    details = {name: F.col(name) for name in ("consumer", "session", "prev_offset", "polled_ns")}
    row = item(RULE.name, offset=F.col("offset"), value=F.col("value"), details={**details, "skipped": skipped})
    return found.where((skipped > 0) & F.col("in_final_log")).select(row.alias("item")).select("item.*")


RULE = Anomaly(
    module=__name__,
    means="row that jumped over an offset of the final log, within its session",
    one="jump of a consumer over records",
    many="jumps of consumers over records",
    why_unknown=why_unknown,
    items=_items,
    question=SKIPS,
)
