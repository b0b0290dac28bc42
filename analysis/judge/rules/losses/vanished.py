"""vanished: a consumer read a value that later was missing or replaced there.

The rule: what was returned once must stay where it was. One item a (partition, offset, value).

The data: polls of ordinary consumers with a value; later polls of the same offset, the final read
among them; the value's absence from the final log. Sends only for what a read_committed final read
hides.

Why it is sound: an offset is given once. A later answer with another value there, or a final read
that passed the offset by, shows that the log was cut. The time at which poll() returned says little
of when the log was asked: a slow consumer returns from its buffer what was cut off since. So a poll
of a record of an older leader epoch shows nothing. A value that stands in the final log was
replaced only if the final read itself, whose rows come in order, had another value there later. Not
vanished is
- what is below the final log start,
- what a step deleted on purpose after it was read (the module deletions),
- what stands in the last leader's own log,
- what is damaged (a null value came back),
- what a read_committed final read hides: a value of a transaction that is not known to be
  committed, and, where the run had transactions, a value without a row in sends.

For the judge, an item is *committed* unless its value stands elsewhere in the partition, or is of a
transaction that is not known to be committed. In these cases its place was cut off, but no record
is lost. Items that are also lost are reported by `lost`.

When it cannot tell: without a final read, or for a partition without one, only later polls are
compared. They show what was replaced, not what is missing. If leader epochs are not known, the
value that was polled first counts as the replaced one. A final read of a run that is not complete
shows only what it passed by, and what lies above its HW.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.judge.rules.anomaly import Anomaly
from analysis.judge.rules.losses.acked_rows import is_lost
from analysis.reconcile.model import VANISHED_RANGES
from analysis.reconcile.work import item
from analysis.rows.facts import Facts
from analysis.rows.values import OF_VALUES
from analysis.spark.columns import deletions_by_run, runs_where, was_deleted
from analysis.spark.sql import Column, F
from ebbtide.coverage_fact import Fact


def why_unknown(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged."""
    if (lacking := facts.missing_or_empty("polls")) is not None:
        return lacking
    if facts.final_consumer is None:
        return "there was no final read: only what a later poll shows replaced is known"
    if facts.compacted:
        return f"topic {facts.compacted[0]} is compacted: missing records may be compacted away"
    if not facts.complete:
        return "the run is not complete: what the final read did not reach is not known"
    return facts.without_final_read()


def _row(runs: Sequence[Facts]) -> Column:
    """Return the item of a row of the history, or null."""
    replaced = _is_replaced_in_final_read(F.col("last_final.final_ns")) | _is_replaced_later(F.col("rival.polled_ns"))
    reached = runs_where(runs, lambda facts: facts.complete) | F.coalesce(
        (F.col("offset") < F.col("final_last")) | (F.col("offset") >= F.col("final_hw")), F.lit(False)
    )
    gone = (
        F.coalesce("final_read", F.lit(False))
        & reached
        & ~F.coalesce("in_final", F.lit(False))
        & ~F.coalesce("in_leader", F.lit(False))
        & ~F.col("damaged")
        & ~F.coalesce("compacted", F.lit(False))
        & ~_can_be_hidden(runs)
    )
    below = F.col("offset") < F.col("log_start")
    also_lost = F.coalesce(is_lost(runs), F.lit(False))
    in_doubt = F.coalesce("in_transaction", F.lit(False)) & ~F.coalesce("in_committed", F.lit(False))
    committed = ~F.coalesce("in_final_log_of_partition", F.lit(False)) & ~in_doubt
    deleted = was_deleted(deletions_by_run(runs), F.col("read_ns"))
    is_vanished = F.col("read_ns").isNotNull() & ~F.coalesce(below, F.lit(False)) & ~deleted & (replaced | gone)
    return F.when(
        is_vanished,
        item(
            RULE.name,
            offset=F.col("offset"),
            value=F.col("value"),
            details={
                "committed": committed,
                "also_lost": F.when(also_lost, also_lost),
                "leader_epoch": F.col("epoch"),
                "consumer": F.col("reader"),
                "polled_ns": F.col("read_ns"),
                "in_final_read": F.coalesce("in_final", F.lit(False)),
                "replaced_by": F.when(replaced, _replacing_values()),
                "others_in_all": F.when(replaced, F.col("others_in_all")),
            },
            committed=committed,
            leader_epoch=F.col("epoch"),
            at_ns=F.col("read_ns"),
            also_lost=also_lost,
        ),
    )


def _is_replaced_in_final_read(other_ns: Column) -> Column:
    """Return whether the final read later returned another value at the offset.

    `other_ns` is when it did so last.
    """
    return F.coalesce(other_ns > F.coalesce("final_ns", "read_ns"), F.lit(False))


def _is_replaced_later(other_ns: Column) -> Column:
    """Return whether a consumer later got another value, and this one does not stand.

    `other_ns` is when it did so last.
    """
    return ~F.col("in_final_log") & F.coalesce(other_ns > F.col("read_ns"), F.lit(False))


def _replacing_values() -> Column:
    """Return the listed values that were at the offset after this one.

    If none of the listed values was, it is one other value.
    """

    def as_replacing_value(one: Column) -> Column:
        return F.struct(one["value"].alias("value"), one["polled_ns"].alias("polled_ns"))

    def replaces(other: Column) -> Column:
        older = F.coalesce(other["epoch"] < F.col("epoch"), F.lit(False))
        return _is_replaced_in_final_read(other["final_ns"]) | (_is_replaced_later(other["polled_ns"]) & ~older)

    listed = F.transform(F.filter("others", replaces), as_replacing_value)
    last = F.when(_is_replaced_in_final_read(F.col("last_final.final_ns")), as_replacing_value(F.col("last_final")))
    return F.when(F.size(listed) > 0, F.array_sort(listed)).otherwise(
        F.array(last.otherwise(as_replacing_value(F.col("rival"))))
    )


def _can_be_hidden(runs: Sequence[Facts]) -> Column:
    """Return whether a read_committed final read may have hidden the value."""
    hides = runs_where(runs, lambda facts: facts.final_read_committed)
    transactional = runs_where(runs, lambda facts: facts.transactional)
    uncommitted = F.col("in_transaction") & ~F.coalesce("in_committed", F.lit(False))
    return hides & F.coalesce(uncommitted, transactional)


RULE = Anomaly(
    means="(partition, offset, value) that a consumer read and that was missing or replaced later",
    one="record that was read and is gone",
    many="records that were read and are gone",
    why_unknown=why_unknown,
    row=_row,
    questions=OF_VALUES,
    groups=VANISHED_RANGES,
    fact=Fact(
        "clients",
        "records-read-then-gone",
        "records that a consumer had read and that were missing later (`vanished`)",
        "KAFKA-15583",
    ),
    example="""
        A consumer got value 2 at offset 1. The final log does not have it.
        sends: 0=1
        polls: 0=1 1=2; final 0=1
        gives: offset=1 value=2
    """,
)
