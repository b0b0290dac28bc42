"""damaged: a record came back, but not as this run wrote it.

The rule: a consumer returned a record whose CRC or run id is wrong, which polls shows as a null
value. One item a (partition, offset), whoever returned it and however often.

The data: polls of every consumer, the final read's too. Control records are never returned to a
consumer.

Why it is sound: each payload carries its own checksum and the run's id. So a record that passes is
one of the run's, and a record that does not pass was written by somebody else or changed on the
way.

When it cannot tell: without polls.
"""

from __future__ import annotations

from analysis.judge.rules.anomaly import Anomaly
from analysis.reconcile.items import item
from analysis.reconcile.work import Work
from analysis.rows.facts import Facts
from analysis.rows.questions import DAMAGED
from analysis.spark.sql import DataFrame, F


def why_unknown(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged."""
    return facts.missing_or_empty("polls")


def _items(work: Work) -> DataFrame | None:
    """Return one row for each item; None if there are none."""
    if work.tables.polls is None or not any(polls.damaged for facts in work.runs for polls in facts.polls):
        return None
    places = (
        work.tables.polls.where("value IS NULL")
        .groupBy("run", "topic", "partition", "offset")
        .agg(F.sort_array(F.collect_set("consumer")).alias("consumers"), F.min("polled_ns").alias("polled_ns"))
    )
    details = {name: F.col(name) for name in ("consumers", "polled_ns")}
    return places.select(item(RULE.name, offset=F.col("offset"), details=details).alias("item")).select("item.*")


RULE = Anomaly(
    module=__name__,
    means="offset at which a consumer got a record that this run did not write",
    one="damaged record",
    many="damaged records",
    why_unknown=why_unknown,
    items=_items,
    question=DAMAGED,
)
