"""duplicate: one value stands, or stood, at two offsets.

The rule: a value is unique in a run, so an offset more is an append more. One item a value, whoever produced
it. It is a fault only where the producer was idempotent, which the details say.

The data: acked sends with an offset, and polls with a value, the final read's too. Never unknown or failed
sends.

Why it is sound: as for inconsistent-offset, each row of the evidence puts the value at an offset.

When it cannot tell: without sends or polls half of the evidence is missing; what the other half shows stands.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from analysis.reconcile.facts import Facts
from analysis.reconcile.items import item

KIND = "duplicate"


def why_unknown(facts: Facts) -> str | None:
    """Why nothing, or not everything, could be judged."""
    return facts.without("sends", "polls")


def items(facts: Facts) -> Column:
    """The item of a row of the history, at the lowest place of the value; null when it is none."""
    places = F.array_sort(
        F.transform(
            F.filter("places", lambda place: place["evidenced"]),
            lambda place: F.struct(
                place["topic"].alias("topic"), place["partition"].alias("partition"), place["offset"].alias("offset")
            ),
        )
    )
    first = (
        F.col("evidenced")
        & (F.get(places, F.lit(0)) == F.struct("topic", "partition", "offset"))
        & (F.size(places) > 1)
    )
    return F.when(
        first,
        item(
            KIND,
            offset=F.col("offset"),
            value=F.col("value"),
            details={
                "places": places,
                "producer": F.col("producer"),
                "idempotent": F.coalesce(F.col("producer").isin(*facts.idempotent), F.lit(False)),
            },
        ),
    )
