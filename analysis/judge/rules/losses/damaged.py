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

from collections.abc import Mapping

from analysis.judge.rules.anomaly import Anomaly
from analysis.reconcile.work import Work, items_of
from analysis.record.scans import Rows
from analysis.rows.facts import Facts
from analysis.rows.question import KindAnswer, KindQuestion, RunSums
from analysis.spark.sql import DataFrame, F


class _Damaged(KindQuestion):
    """Did a consumer get a record that is not of this run?"""

    reads: Mapping[str, tuple[str, ...]] = {"polls": ("value",)}
    _found = False

    def add(self, rows: Rows) -> None:
        """Look for a poll without a value."""
        self._found |= not rows.known("value").all()

    def answer(self, summed: RunSums) -> KindAnswer:
        """Return the answer; such polls are always chosen."""
        return KindAnswer(is_possible=self._found)


def why_unknown(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged."""
    return facts.missing_or_empty("polls")


def _items(work: Work) -> DataFrame | None:
    """Return one row for each item; None if there are none."""
    if work.tables.polls is None:
        return None
    places = (
        work.tables.polls.where("value IS NULL")
        .groupBy("run", "topic", "partition", "offset")
        .agg(F.sort_array(F.collect_set("consumer")).alias("consumers"), F.min("polled_ns").alias("polled_ns"))
    )
    return items_of(places, RULE.name, ("consumers", "polled_ns"))


RULE = Anomaly(
    means="offset at which a consumer got a record that this run did not write",
    one="damaged record",
    many="damaged records",
    why_unknown=why_unknown,
    items=_items,
    questions=(_Damaged,),
    example="""
        A consumer got a record at offset 1 whose checksum is wrong.
        sends: 0=1
        polls: final 0=1 1=-
        gives: offset=1
    """,
)
