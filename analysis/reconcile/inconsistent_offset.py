"""inconsistent-offset: one offset of a partition held two values.

The rule: an offset is given to one record, once. One item an offset.

The data: acked sends with an offset, and polls with a value, the final read's too. Never unknown or failed
sends, whose offset nobody vouched for, and never replicas: copies may differ above the HW while they converge.

Why it is sound: an acknowledgement and a poll each say of one value that it stood at that offset at some time.

When it cannot tell: without sends or polls half of the evidence is missing, as it is of acked records without an
offset; what the other half shows stands.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from analysis.reconcile.facts import Facts
from analysis.reconcile.items import item

KIND = "inconsistent-offset"


def why_unknown(facts: Facts) -> str | None:
    """Why nothing, or not everything, could be judged."""
    return facts.without("sends", "polls") or facts.without_offsets()


def items() -> Column:
    """The item of a row of the history, at the lowest value of the offset; null when it is none."""
    others = F.transform(
        F.filter("others", lambda one: one["evidenced"] & one["value"].isNotNull()), lambda one: one["value"]
    )
    lowest = F.col("evidenced") & (F.array_min(others) > F.col("value"))
    values = F.array_sort(F.concat(F.array("value"), others))
    return F.when(lowest, item(KIND, offset=F.col("offset"), details={"values": values}))
