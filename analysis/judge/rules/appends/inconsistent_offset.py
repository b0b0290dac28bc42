"""inconsistent-offset: one offset of a partition held two values.

The rule: an offset is given to one record, once. One item an offset.

The data: acked sends with an offset, and polls with a value, the final read's too. Never unknown or
failed sends, whose offset nobody vouched for. Never replicas: copies may differ above the HW while
they converge.

Why it is sound: an acknowledgement and a poll each say of one value that it was at that offset at
some time.

When it cannot tell: without sends or polls half of the evidence is missing. It is also missing for
acked records without an offset. What the other half shows stays true.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.judge.rules.anomaly import Anomaly
from analysis.reconcile.work import item
from analysis.rows.facts import Facts
from analysis.rows.values import OF_VALUES
from analysis.spark.sql import Column, F


def why_unknown(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged."""
    return facts.missing_or_empty("sends", "polls") or facts.without_offsets()


def _row(_: Sequence[Facts]) -> Column:
    """Return the item of a row of the history, or null.

    It is at the lowest value of the offset.
    """
    stood = F.when(F.col("values_in_all") > F.size("values"), F.col("values_in_all"))
    details = {"values": F.col("values"), "stood": stood}
    return F.when(F.col("values_in_all") > 1, item(RULE.name, offset=F.col("offset"), details=details))


RULE = Anomaly(
    means="offset that held two values",
    one="offset that held two values",
    many="offsets that held two values",
    why_unknown=why_unknown,
    row=_row,
    questions=OF_VALUES,
    example="""
        Brokers acked two values at offset 0.
        sends: 0=1 0=2
        polls: final 0=1
        gives: offset=0
    """,
)
