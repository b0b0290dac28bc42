"""poll-back: within one session, a consumer's position went back, or stood still.

The rule: one item a row whose offset is not above the offset that was returned before it in its
session.

The data: polls with a `prev_offset`, of every consumer. A session ends whenever the position is set
(a start, a seek, a reset, a rebalance), so only the broker or the client can move it within a
session.

Why it is sound: a fetch response holds records in the order of their offsets, and the position
after it is the last offset plus one.

When it cannot tell: without polls, or when no row says what was returned before it.
"""

from __future__ import annotations

from collections.abc import Mapping

from analysis.judge.rules.anomaly import Anomaly
from analysis.reconcile.work import Work, items_of
from analysis.record.scans import Rows
from analysis.rows.facts import Facts
from analysis.rows.question import KindAnswer, KindQuestion, RunSums
from analysis.spark.sql import DataFrame


class _Back(KindQuestion):
    """Is there a row whose offset is not above the one before in its session?"""

    reads: Mapping[str, tuple[str, ...]] = {"polls": ("offset", "prev_offset")}
    _found = False

    def add(self, rows: Rows) -> None:
        """Look for such a row."""
        back = rows.known("prev_offset") & (rows.numbers("offset") <= rows.numbers("prev_offset"))
        self._found |= bool(back.any())

    def answer(self, summed: RunSums) -> KindAnswer:
        """Return the answer; such polls are always chosen."""
        return KindAnswer(is_possible=self._found)


def why_unknown(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged.

    One row a partition has no row before it.
    """
    lacking = facts.missing_or_empty("polls")
    if lacking is not None:
        return lacking
    if not any(polls.chained for polls in facts.polls) and any(polls.rows > 1 for polls in facts.polls):
        return "what each poll returned before is not known (prev_offset)"
    return None


def _items(work: Work) -> DataFrame | None:
    """Return one row for each item; None if there are none."""
    if work.tables.polls is None:
        return None
    back = work.tables.polls.where("offset <= prev_offset")
    return items_of(back, RULE.name, ("consumer", "session", "prev_offset", "polled_ns"), value="value")


RULE = Anomaly(
    means="row not above the row before it, within its session",
    one="step back of a consumer",
    many="steps back of consumers",
    why_unknown=why_unknown,
    items=_items,
    questions=(_Back,),
    example="""
        Consumer 1 got offset 0 right after offset 1.
        polls: 1=2; offset=0 value=1 prev_offset=1
        gives: offset=0 value=1
    """,
)
