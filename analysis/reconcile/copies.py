"""What the two kinds about copiers share: which copy of an input counts, and which partitions can be judged.

A copier reads a topic in a group, and sends one record, a copy, for each record that it reads, an input. An input is
copied at most once if the offsets of the group are committed with the copies.

A copy is *visible* if a read_committed consumer got it, or if its transaction is committed and the final read got it.
A copy of an aborted transaction never is: where it is read all the same, that is an aborted-read. A copy that is in
the final log, and whose transaction ended nobody knows how, *may be* visible, unless a session of a read_committed
consumer passed it over (the module final_log_rows): it was not committed.

When it cannot tell, for both kinds: where the run is not complete, since a copy may have no row. Where no
read_committed consumer read the topic that is copied to from where the final read began to its end, so that copies in
doubt stay in doubt. Where such a consumer got another record at the offset of a copy. A record without the table says
nothing of copies, and there is nothing to judge.
"""

from __future__ import annotations

from analysis.reconcile.final_log_rows import session_ranges
from analysis.reconcile.model import GroupsOfKind, WrongCopies
from analysis.reconcile.work import Work
from analysis.rows.facts import Facts
from analysis.spark.columns import PARTITION
from analysis.spark.sql import DataFrame, F

INPUT = ["run", "group", "topic", "partition", "offset"]
"""What an input is, for one group."""

GROUPS = GroupsOfKind(into=WrongCopies, by=("`group`",))


def why_copies_unknown(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged; None also where nothing was copied."""
    if gap := next((one for one in facts.gaps if one.part == "copies"), None):
        return gap.why
    if not facts.copies:
        return None
    if not facts.complete:
        return "the run is not complete: a copy may have no row, and the final read may have stopped anywhere"
    if lacking := facts.missing_or_empty("sends", "polls") or facts.without_final_read():
        return lacking
    for topic in sorted({one.copied_to for one in facts.copies}):
        polls = [one for one in facts.polls if one.topic == topic]
        whole = {one.partition: one for one in polls if one.final}
        for one in polls:
            final = whole.get(one.partition)
            is_whole = final and one.first_offset <= final.first_offset and final.last_offset <= one.last_offset
            if is_whole and one.read_committed:
                del whole[one.partition]
        if whole:
            return f"no read_committed consumer read all of {topic}-{min(whole)}, so copies in doubt may be visible"
    return None


def copies_of(work: Work) -> DataFrame | None:
    """Return the copies, one row each: `visible`, and `may_be_visible`; None if there are none."""
    tables, sessions = work.tables, work.shared(session_ranges)
    if sessions is None or tables.copies is None or tables.polls is None or tables.sends is None:
        return None
    copies = tables.copies.select(*INPUT, "copied_to", "producer", "value").distinct()
    of_copies = F.broadcast(copies.select("run", "value").distinct())
    sent = (
        tables.sends.join(of_copies, ["run", "value"], "left_semi")
        .groupBy("run", "value")
        .agg(
            F.max(F.coalesce(F.col("txn_outcome") == "aborted", F.lit(False))).alias("aborted"),
            F.max(F.coalesce(F.col("txn_outcome") == "committed", F.lit(False))).alias("committed"),
        )
    )
    got = (
        tables.polls.join(of_copies, ["run", "value"], "left_semi")
        .groupBy("run", "value")
        .agg(F.max(F.col("isolation") == "read_committed").alias("shown"), F.max("final").alias("standing"))
    )
    # Where a session got another record, the log was cut since: the copy was not there to be passed over.
    returned = tables.polls.where("NOT final AND isolation = 'read_committed'").select(*PARTITION, "offset").distinct()
    passed = (
        tables.polls.where("final")
        .join(of_copies, ["run", "value"], "left_semi")
        .join(returned, [*PARTITION, "offset"], "left_anti")
        .join(F.broadcast(sessions), PARTITION)
        .where("exists(sessions, one -> one.read_committed AND one.first < offset AND offset < one.last)")
        .select("run", "value", F.lit(True).alias("passed"))
        .distinct()
    )
    known = copies.join(sent, ["run", "value"], "left").join(got, ["run", "value"], "left")
    known = known.join(passed, ["run", "value"], "left")
    flags = {name: F.coalesce(name, F.lit(False)) for name in ("aborted", "committed", "shown", "standing", "passed")}
    known = known.withColumns(flags)
    return known.withColumns(
        {
            "visible": F.expr("NOT aborted AND (shown OR (committed AND standing))"),
            "may_be_visible": F.expr("NOT aborted AND (shown OR standing AND (committed OR NOT passed))"),
        }
    )
