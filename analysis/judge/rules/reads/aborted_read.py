"""aborted-read: a consumer got a value that it never should have got.

The rule has two cases. A consumer of either isolation got a value that surely was not appended,
because its send failed. Or a read_committed consumer got a value of an aborted transaction. One
item a value, at the lowest place where it was got.

The data: polls of every consumer, the final read's too; sends with status failed or txn_outcome
aborted.

Why it is sound: a send counts as failed only where the broker's answer rules out that the record
was appended, and a transaction as aborted only where the coordinator said so. A transaction or a
send whose outcome is not known is no evidence.

When it cannot tell: without sends or polls.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.judge.rules.anomaly import Anomaly
from analysis.reconcile.model import AbortedReads, GroupsOfKind
from analysis.reconcile.work import item
from analysis.rows.facts import Facts
from analysis.rows.values import OF_VALUES
from analysis.spark.sql import Column, F


def why_unknown(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged."""
    return facts.missing_or_empty("sends", "polls")


def _row(_: Sequence[Facts]) -> Column:
    """Return the item of a row of the history, or null.

    It is at the lowest place that counts.
    """
    return F.when(
        F.col("got_places").isNotNull(),
        item(
            RULE.name,
            offset=F.col("offset"),
            value=F.col("value"),
            details={
                "failed": F.coalesce("failed", F.lit(False)),
                "aborted": F.coalesce("in_aborted", F.lit(False)),
                "places": F.col("got_places"),
                "stood": F.when(F.col("got_in_all") > F.size("got_places"), F.col("got_in_all")),
                "producer": F.col("producer"),
            },
        ),
    )


RULE = Anomaly(
    means="value of a failed send that was read, or of an aborted transaction that read_committed returned",
    one="forbidden read",
    many="forbidden reads",
    why_unknown=why_unknown,
    row=_row,
    questions=OF_VALUES,
    groups=GroupsOfKind(into=AbortedReads),
    example="""
        The send of value 1 failed, and a consumer got it all the same.
        sends: value=1 status=failed
        polls: 0=1
        gives: offset=0 value=1
    """,
)
