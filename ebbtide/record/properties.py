"""The properties of verdict.json: which of them must be known.

There is one for each clause that is checked.
"""

from __future__ import annotations

from collections.abc import Collection

from ebbtide.record.judged_by import JudgedBy
from ebbtide.record.verdict import Needed, PropertyResult, Verdict
from ebbtide.rules.table import CLAUSES, HW_REGRESSION, NO_HW_REGRESSION
from ebbtide.scenario.model import Prediction

CHECKER_FAILED = "the checker failed: "


def is_needed(name: str, needed: Needed, prediction: Prediction | None, *, threw: bool, fell: bool) -> bool:
    """Whether a run cannot end as predicted while this clause is unknown. `needed` is what the clause declares.

    A clause that the prediction requires to hold is needed. Clauses on the HW are needed where the prediction mentions
    the HW, and where a HW went back without an allowed cause (`fell`). A checker that failed (`threw`) always counts:
    what it would have found is not known.
    """
    if threw or (name == NO_HW_REGRESSION and fell):
        return True
    if prediction is not None and name in prediction.holds:
        return True
    if needed == "if-hw-predicted":
        return prediction is not None and prediction.hw_regression != "any"
    return needed == "always"


def hw_fell_without_cause(
    clause: PropertyResult | None,
    *,
    fallen: Collection[tuple[str, int]],
    explained: Collection[tuple[str, int]],
) -> bool:
    """Whether a HW went back and the judge found no cause for it.

    `clause`: the result of *no-hw-regression-unless-allowed*. While it is unknown, it names each such fall. Where the
    record has a gap it names the gap instead, and no fall has a cause: then none of the partitions whose HW has
    `fallen` is among the partitions with an `explained` fall.
    """
    named = (
        clause is not None
        and clause.status == "unknown"
        and any(isinstance(row, dict) and "from" in row for row in clause.evidence)
    )
    return named or not set(fallen) <= set(explained)


def needed_unknown_clauses(verdict: Verdict, prediction: Prediction | None) -> list[str]:
    """Return the needed clauses that are unknown in a verdict.

    `prediction`: the scenario's prediction of the run.
    """
    fell = hw_fell_without_cause(
        next((one for one in verdict.properties if one.name == NO_HW_REGRESSION), None),
        fallen={(one.topic, one.partition) for one in verdict.anomalies if one.kind == HW_REGRESSION},
        explained={(one.topic, one.partition) for one in verdict.regressions},
    )
    declared: dict[str, Needed] = {one.name: one.needed for one in CLAUSES.values()}
    declared |= {one.name: one.needed for one in verdict.own_rules}
    return [
        one.name
        for one in verdict.properties
        if one.status == "unknown"
        and is_needed(one.name, declared.get(one.name, "always"), prediction, threw=_is_checker_failure(one), fell=fell)
    ]


def _is_checker_failure(one: PropertyResult) -> bool:
    return _why(one).startswith(CHECKER_FAILED)


def _why(one: PropertyResult) -> str:
    first = one.evidence[0] if one.evidence else None
    return str(first.get("why", "")) if isinstance(first, dict) else ""


def failed_file(verdict: Verdict) -> str | None:
    """Return the option that named a file of the user that failed while the run was judged; None: none did."""
    given = [("--rule", one.file) for one in verdict.own_rules]
    if isinstance(verdict.protocol, JudgedBy) and isinstance(verdict.protocol.file, str):
        given.append(("--variant", verdict.protocol.file))
    failed = [_why(one) for one in verdict.properties if _is_checker_failure(one)]
    found = (f"{option} {file}" for option, file in given if any(f"({file}, line " in why for why in failed))
    return next(found, None)
