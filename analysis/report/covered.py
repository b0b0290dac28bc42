"""Says what a run exercised: the coverage facts that came about, and what each counts."""

from __future__ import annotations

import msgspec

from ebbtide.record.verdict import Verdict
from ebbtide.scenario.facts import FACTS


class CoverageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A coverage fact that came about, how often, and what it counts."""

    fact: str
    count: str
    meaning: str


def coverage_rows(verdict: Verdict) -> tuple[CoverageRow, ...]:
    """Return the facts that came about; the meaning is empty for a fact of another version."""
    return tuple(
        CoverageRow(fact=fact, count=f"{count:,}", meaning=FACTS[fact].counts if fact in FACTS else "")
        for fact, count in verdict.coverage.items()
        if count
    )


def facts_not_covered(verdict: Verdict) -> tuple[str, ...]:
    """Return the names of the facts that did not come about."""
    return tuple(fact for fact, count in verdict.coverage.items() if not count)
