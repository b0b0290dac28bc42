"""Decides the outcome of a run, with each reason as a sentence.

- *contradicted*: a clause is violated, a loss is unexplained, or proven evidence breaks the
  scenario's expectation.
- *inconclusive*: the run cannot vouch for an answer.
- *as-predicted*: nothing speaks against it.

Contradicted wins over inconclusive, since what was proven stays proven.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.judge.history.attributed import AnyAnomaly, blamed_of, elections_in_brackets, group_alike, places_of
from analysis.judge.outcome.prediction import Comparison
from analysis.judge.rules.clause import CheckedClause
from analysis.reconcile.model import HwRegression, ItemGroup, LostCommits, LostRange, VanishedRange
from ebbtide.plurals import plural
from ebbtide.record.manifest import Manifest, reason_of_message
from ebbtide.record.properties import hw_fell_without_cause, is_needed
from ebbtide.record.steps import StepEntry
from ebbtide.record.verdict import NOTHING_SENT, Outcome
from ebbtide.rules.table import NO_HW_REGRESSION
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.steps.proof import StepProof
from ebbtide.scenario.steps.table import CUT_KINDS
from ebbtide.scenario.steps.waiting import WaitStep

_SHOWN_MAX = 20
_NAMES_BEFORE_REASON = 2
"""Up to this many clauses are named before the reason why they are unknown."""
_FATES: tuple[tuple[type[ItemGroup], str, str], ...] = (
    (VanishedRange, "read record", "vanished"),
    (HwRegression, "HW", "went back"),
    (LostCommits, "group commit", "lost"),
)


def unproven_reasons(
    manifest: Manifest, scenario: Scenario | None, steps: Sequence[StepEntry] | None, gaps: Sequence[str] = ()
) -> list[str]:
    """Return why the schedule cannot be taken as carried out.

    Each sentence makes the run inconclusive. That the run did not complete is the first, because the rest follows from
    it. `gaps` say what the record lacks.
    """
    found = []
    if manifest.status != "complete":
        found.append(f"the run did not complete: {manifest.why_incomplete or manifest.status}")
    found += gaps
    if manifest.torn_journal_bytes:
        torn = plural(manifest.torn_journal_bytes, "byte")
        found.append(
            f"{torn} at the ends of the clients' journals are not whole entries: the tables lack their contents"
        )
    planned = len(scenario.steps) if scenario is not None else 0
    if steps is None:
        if planned or scenario is None:
            found.append("steps.jsonl is missing: which faults took effect is not known")
        return found
    for step in steps:
        if step.optional:
            continue
        name = f"step {step.index} ({step.step}{_node_names(step)})"
        # The failure of the run is its first reason already.
        why = None if step.why == manifest.failure else step.why
        reason = f": {reason_of_message(why)}" if why else ""
        if step.fired_ns is None:
            found.append(f"{name} never fired{reason}")
        elif not step.is_a(WaitStep) and (step.effect_ns is None or step.figures(StepProof).probe == "failed"):
            found.append(f"{name} has no proof that it took effect{reason}")
    absent = planned - len({step.index for step in steps})
    if absent > 0:
        found.append(f"{absent} of the scenario's {planned} steps never fired: they are not in steps.jsonl")
    return found


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
    return (one for one in checked if is_needed(one.found.name, prediction, threw=one.threw, fell=fell))


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
    against = [
        f"{one.found.kip} is violated: {one.found.name} ({_first_case(one)})"
        for one in checked
        if one.found.status == "violated" and not one.clause.allowed
    ]
    losses = blamed_of(blamed, LostRange)
    against += _unexplained_reasons([one for one in losses if one.committed], "committed record", "lost")
    against += _unexplained_reasons([one for one in losses if not one.committed], "record", "lost")
    for sort, what, fate in _FATES:
        against += _unexplained_reasons(blamed_of(blamed, sort), what, fate)
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
    open_ += _unknown_reasons([one for one in needed if one.found.status == "unknown"])
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


def _unknown_reasons(checked: Sequence[CheckedClause]) -> list[str]:
    """Group the undecided clauses by their reason, one sentence each.

    The reason of many clauses comes first: nobody reads to the end of a long list of names.
    """
    by_reason: dict[str, list[str]] = {}
    for one in checked:
        by_reason.setdefault(one.why, []).append(f"{one.found.name} ({one.found.kip})")
    return [_unknown_reason(why, names) for why, names in by_reason.items()]


def _unknown_reason(why: str, names: Sequence[str]) -> str:
    if why and len(names) > _NAMES_BEFORE_REASON:
        return f"{why}; so {len(names)} clauses are unknown: {', '.join(names)}"
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} unknown" + (f": {why}" if why else "")


def _unexplained_reasons(blamed: Sequence[AnyAnomaly], what: str, fate: str) -> list[str]:
    found = group_alike(one for one in blamed if one.attribution.cause == "unexplained")
    told = []
    for alike in found[:_SHOWN_MAX]:
        count = sum(one.items.count for one in alike)
        many = "" if count == 1 or what == "HW" else "s"
        told.append(
            f"{count:,} {what}{many} of {places_of(alike)} {fate} against the protocol: "
            f"{alike[0].attribution.why}{elections_in_brackets(alike)}"
        )
    return told + ([f"and {len(found) - _SHOWN_MAX} more like these"] if len(found) > _SHOWN_MAX else [])


def _first_case(one: CheckedClause) -> str:
    rows = one.found.evidence
    first = rows[0] if rows and isinstance(rows[0], dict) else {}
    where = [f"{key.replace('_', ' ')} {first[key]}" for key in ("metadata_offset", "broker") if key in first]
    if "topic" in first:
        where.insert(0, f"{first['topic']}-{first['partition']}")
    count = plural(one.cases, "case")
    return f"{count}, first: {', '.join(where)}" if where else count


def _node_names(step: StepEntry) -> str:
    """Name the nodes that the step hit.

    Empty for a cut: it names both sides, which says nothing in a sentence.
    """
    return f" of {', '.join(map(str, step.nodes))}" if step.nodes and step.step not in CUT_KINDS else ""
