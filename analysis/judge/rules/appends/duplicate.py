"""duplicate: one value stands, or stood, at two offsets.

The rule: a value is unique in a run, so a second offset means a second append. One item a value,
whoever produced it. The details say whether the producer was idempotent: only then it is a fault.
They also say at how many of the places the value still stands (in the final read or the last
leader's log), and how many are `unreadable`: below the log start, or in a partition whose final
offsets are not known. The judge gets all items, grouped by these three.

The data: acked sends with an offset, and polls with a value, the final read's too. Never unknown or
failed sends.

Why it is sound: as for inconsistent-offset, each row of the evidence puts the value at an offset.

When it cannot tell: without sends or polls half of the evidence is missing. It is also missing for
acked records without an offset. What the other half shows stays true.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.judge.rules.anomaly import Anomaly
from analysis.reconcile.model import Duplicates, GroupsOfKind
from analysis.reconcile.work import item
from analysis.rows.facts import Facts
from analysis.rows.values import OF_VALUES
from analysis.spark.columns import is_idempotent
from analysis.spark.sql import Column, F


def why_unknown(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged."""
    return facts.missing_or_empty("sends", "polls") or facts.without_offsets()


def _row(runs: Sequence[Facts]) -> Column:
    """Return the item of a row of the history, or null.

    It is at the lowest place of the value.
    """
    return F.when(
        F.col("places_in_all") > 1,
        item(
            RULE.name,
            offset=F.col("offset"),
            value=F.col("value"),
            details={
                "places": F.col("places"),
                "stood": F.when(F.col("places_in_all") > F.size("places"), F.col("places_in_all")),
                "standing": F.col("standing"),
                "unreadable": F.col("unreadable"),
                "producer": F.col("producer"),
                "idempotent": is_idempotent(runs),
            },
            idempotent=is_idempotent(runs),
            twice_in_final_log=F.col("standing") > 1,
            unreadable=F.col("unreadable") > 0,
        ),
    )


RULE = Anomaly(
    means="value at two offsets",
    one="duplicated record",
    many="duplicated records",
    why_unknown=why_unknown,
    row=_row,
    questions=OF_VALUES,
    groups=GroupsOfKind(into=Duplicates, by=("idempotent", "twice_in_final_log", "unreadable")),
    # A retry duplicates a record, or does not. Duplicates of an idempotent producer also violate a clause.
    depends_on_chance=True,
    example="""
        Value 1 is at the offsets 0 and 1.
        sends: 0=1
        polls: final 0=1 1=1
        gives: offset=0 value=1
    """,
)
