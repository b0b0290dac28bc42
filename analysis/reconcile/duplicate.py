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

from collections.abc import Callable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from analysis.reconcile.facts import Facts, runs_where
from analysis.reconcile.items import item

KIND = "duplicate"


def why_unknown(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged."""
    return facts.missing_or_empty("sends", "polls") or facts.without_offsets()


def items(runs: Sequence[Facts]) -> Column:
    """Return the item of a row of the history, or null.

    It is at the lowest place of the value.
    """
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
                "idempotent": is_idempotent(runs),
            },
            idempotent=is_idempotent(runs),
            twice_in_final_log=F.col("standing") > 1,
            unreadable=F.col("unreadable") > 0,
        ),
    )


def is_idempotent(runs: Sequence[Facts]) -> Column:
    """Return whether the value's producer was idempotent: it must not append twice."""
    found = F.lit(False)
    for producers in sorted({facts.idempotent for facts in runs if facts.idempotent}):
        found = found | (F.col("producer").isin(*producers) & runs_where(runs, _with_is_idempotent(producers)))
    return F.coalesce(found, F.lit(False))


def _with_is_idempotent(producers: tuple[int, ...]) -> Callable[[Facts], bool]:
    return lambda facts: facts.idempotent == producers
