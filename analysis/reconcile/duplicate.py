"""duplicate: one value stands, or stood, at two offsets.

The rule: a value is unique in a run, so an offset more is an append more. One item a value, whoever produced
it. It is a fault only where the producer was idempotent, which the details say, as they say at how many of the
places it still stands (in the final read or the last leader's log), and how many are `unreadable`: below the log
start, or in a partition whose final offsets are not known. The judge gets all items, grouped by these three.

The data: acked sends with an offset, and polls with a value, the final read's too. Never unknown or failed
sends.

Why it is sound: as for inconsistent-offset, each row of the evidence puts the value at an offset.

When it cannot tell: without sends or polls half of the evidence is missing, as it is of acked records without an
offset; what the other half shows stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from analysis.reconcile.facts import Facts, runs_where
from analysis.reconcile.items import item

KIND = "duplicate"


def why_unknown(facts: Facts) -> str | None:
    """Why nothing, or not everything, could be judged."""
    return facts.without("sends", "polls") or facts.without_offsets()


def items(runs: Sequence[Facts]) -> Column:
    """The item of a row of the history, at the lowest place of the value; null when it is none."""
    return F.when(
        F.col("places_in_all") > 1,
        item(
            KIND,
            offset=F.col("offset"),
            value=F.col("value"),
            details={
                "places": F.col("places"),
                "stood": F.when(F.col("places_in_all") > F.size("places"), F.col("places_in_all")),
                "standing": F.col("standing"),
                "unreadable": F.col("unreadable"),
                "producer": F.col("producer"),
                "idempotent": idempotent(runs),
            },
            idempotent=idempotent(runs),
            stands_twice=F.col("standing") > 1,
            unreadable=F.col("unreadable") > 0,
        ),
    )


def idempotent(runs: Sequence[Facts]) -> Column:
    """Whether the value's producer was idempotent: it must not append anything twice."""
    found = F.lit(False)
    for producers in sorted({facts.idempotent for facts in runs if facts.idempotent}):
        found = found | (F.col("producer").isin(*producers) & runs_where(runs, _with_idempotent(producers)))
    return F.coalesce(found, F.lit(False))


def _with_idempotent(producers: tuple[int, ...]) -> Callable[[Facts], bool]:
    return lambda facts: facts.idempotent == producers
