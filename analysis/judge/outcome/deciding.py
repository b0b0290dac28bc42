"""Decides the outcome of a run, with each reason as a sentence.

- *contradicted*: a clause is violated, a loss is unexplained, or proven evidence breaks the
  scenario's expectation.
- *inconclusive*: the run cannot vouch for an answer.
- *as-predicted*: nothing speaks against it.

Contradicted wins over inconclusive, since what was proven stays proven.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.judge.history.evidence import AnyAnomaly, blamed_of
from analysis.judge.outcome.prediction import Comparison
from analysis.judge.outcome.reasons import unexplained_reasons, unknown_reasons, violation_reasons
from analysis.judge.rules.clause import CheckedClause
from analysis.reconcile.model import HwRegression, ItemGroup, LostCommits, LostRange, VanishedRange
from ebbtide.record.properties import hw_fell_without_cause, is_needed
from ebbtide.record.verdict import NOTHING_SENT, Outcome
from ebbtide.rules.table import NO_HW_REGRESSION
from ebbtide.shown_text import plural

_FATES: tuple[tuple[type[ItemGroup], str, str], ...] = (
    (VanishedRange, "read record", "vanished"),
    (HwRegression, "HW", "went back"),
    (LostCommits, "group commit", "lost"),
)


def _needed_clauses(
    checked: Sequence[CheckedClause], comparison: Comparison | None, regressions: Sequence[AnyAnomaly]
) -> Iterator[CheckedClause]:
    """Yield the clauses that must be known for the run to end as predicted."""
    prediction = comparison.prediction if comparison is not None else None
    fell = hw_fell_without_cause(
        next((one.found for one in checked if one.found.name == NO_HW_REGRESSION), None),
        fallen={one.items.log for one in regressions},
        explained={one.items.log for one in regressions if one.attribution.cause is not None},
    )
    return (
        one for one in checked if is_needed(one.found.name, one.clause.needed, prediction, threw=one.threw, fell=fell)
    )


def decide(
    *,
    checked: Sequence[CheckedClause],
    blamed: Sequence[AnyAnomaly],
    comparison: Comparison | None,
    no_scenario: str | None,
    faulty: Sequence[str],
    no_final_read: str | None = None,
    sent_nothing: bool = False,
) -> tuple[Outcome, list[str]]:
    """Decide the outcome and the reasons for it.

    `no_scenario` says why there is nothing to compare with, `no_final_read` why a complete run has no final read. The
    latter is the cause of most of what is unknown then. `sent_nothing`: the run did not complete, which is the first of
    `faulty`, and sent no record before. All the rest follows from that, and is summed up.
    """
    violated = [one for one in checked if one.found.status == "violated" and not one.clause.allowed]
    against = [says for one in violated for says in violation_reasons(one)]
    losses = blamed_of(blamed, LostRange)
    against += unexplained_reasons([one for one in losses if one.committed], "committed record", "lost")
    against += unexplained_reasons([one for one in losses if not one.committed], "record", "lost")
    for sort, what, fate in _FATES:
        against += unexplained_reasons(blamed_of(blamed, sort), what, fate)
    if comparison is not None:
        against += comparison.broken
        if not faulty:
            against += comparison.unless_faulty
    if against:
        return "contradicted", [*against, *faulty, *(comparison.open if comparison is not None else ())]
    if sent_nothing:
        unknown = sum(one.found.status == "unknown" for one in checked)
        clauses = f": {plural(unknown, 'clause')} of the protocol cannot be checked" if unknown else ""
        return "inconclusive", [*faulty[:1], f"{NOTHING_SENT}{clauses}"]
    open_ = [*faulty]
    needed = _needed_clauses(checked, comparison, blamed_of(blamed, HwRegression))
    open_ += unknown_reasons([one for one in needed if one.found.status == "unknown"])
    # For committed records their clause says it.
    unattributed = sum(one.items.count for one in losses if not one.committed and one.attribution.cause is None)
    if unattributed:
        many = "s were" if unattributed > 1 else " was"
        open_.append(f"why {unattributed:,} uncommitted record{many} lost is not known")
    if comparison is not None:
        open_ += comparison.open
    if no_scenario is not None:
        open_.append(no_scenario)
    if open_ and no_final_read is not None:
        open_.insert(0, no_final_read)
    return ("inconclusive", open_) if open_ else ("as-predicted", [])
