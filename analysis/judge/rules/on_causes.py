"""What the clauses on losses share: each loss needs a cause that the protocol permits."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.judge.history.attributed import AnyAnomaly
from analysis.judge.history.evidence import Row
from analysis.judge.rules.findings import Finding, finding


def finding_on_causes(blamed: Sequence[AnyAnomaly], *, exercised: int, kind_unknown: str | None) -> Finding:
    """Return a violation for each anomaly that nothing explains; one that may be a violation is unknown."""
    violations = [cause_row(one) for one in blamed if one.attribution.cause == "unexplained"]
    undecided = [cause_row(one) for one in blamed if one.attribution.cause is None and not one.attribution.is_allowed]
    if kind_unknown is not None:
        undecided.append({"why": kind_unknown})
    return finding(exercised=exercised, violations=violations, unknown=undecided)


def cause_row(one: AnyAnomaly) -> Row:
    """Return an anomaly as evidence, with the reason of its cause."""
    return {
        **one.items.log._asdict(),
        **one.items.evidence,
        "count": one.items.count,
        "why": one.attribution.why,
    }
