"""What a shrink keeps: one anomaly by one cause, the gravest of the record, or all that it shows."""

from __future__ import annotations

import shlex
from collections import Counter

import msgspec

from ebbtide.errors import UsageError
from ebbtide.record.verdict import Outcome, Verdict
from ebbtide.scenario.model import LossExpectation, Prediction
from harness.replay.finding import RunFinding, finding
from harness.replay.recorded import RecordedRun

COMMITTED = "committed loss by "
UNCOMMITTED = "uncommitted loss by "


_UNEXPLAINED = COMMITTED + "unexplained"
_VIOLATED = "violated "


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """The finding to keep, and how a run ends that shows it under `prediction`; `besides`: what else was recorded."""

    facts: tuple[str, ...]
    outcome: Outcome
    prediction: Prediction
    besides: tuple[str, ...] = ()

    @property
    def is_loss(self) -> bool:
        """Whether it cannot be had without an acked record that is gone."""
        return any(fact.startswith((COMMITTED, UNCOMMITTED)) for fact in self.facts)


def goal_from(recorded: RecordedRun, *, keep_all: bool = False) -> Goal:
    """The gravest of the record, or everything. Raises `UsageError` for a record that shows nothing."""
    found = finding(recorded.verdict) if recorded.verdict is not None else None
    if recorded.verdict is None or found is None or not found.facts:
        raise UsageError(
            "there is nothing to keep while shrinking: the record shows no loss, no anomaly and no violation",
            where=str(recorded.folder),
            next=f"ebbtide analyze {shlex.quote(str(recorded.folder))}",
        )
    keep = found.facts if keep_all else (gravest(found, recorded.verdict),)
    return goal_of(found, recorded.manifest.kafka, f"shown by run {recorded.manifest.run_id}", keep=keep)


def gravest(found: RunFinding, verdict: Verdict) -> str:
    """Of the facts, a loss that nothing explains, a violation, or else what took most records or came most often."""
    counts: Counter[str] = Counter()
    for loss in verdict.losses:
        counts[f"{COMMITTED if loss.committed else UNCOMMITTED}{loss.cause}"] += loss.count
    counts.update(f"hw-regression by {one.cause}" for one in verdict.regressions)
    for anomaly in verdict.anomalies:
        counts[anomaly.kind] += anomaly.count
    return max(found.facts, key=lambda fact: (fact == _UNEXPLAINED, fact.startswith(_VIOLATED), counts[fact]))


def goal_of(found: RunFinding, kafka: str, clause: str, *, keep: tuple[str, ...] | None = None) -> Goal:
    """What to predict so that what is to be kept (all that was found) is as predicted; a violation can only contradict.

    The cause is asked for only where no other was found beside it: a run with two would contradict.
    """
    facts = found.facts if keep is None else keep
    causes = [fact.removeprefix(COMMITTED) for fact in found.facts if fact.startswith(COMMITTED)]
    violated = any(fact.startswith(_VIOLATED) or fact == _UNEXPLAINED for fact in facts)
    loss = LossExpectation()
    if any(fact.startswith(COMMITTED) for fact in facts) and not violated:
        loss = msgspec.structs.replace(loss, committed="some")
        if len(causes) == 1:
            loss = msgspec.convert({"committed": "some", "cause": causes[0]}, LossExpectation)
    elif any(fact.startswith(UNCOMMITTED) for fact in facts):
        loss = LossExpectation(committed="none", uncommitted="some")
    falls = any(fact.startswith("hw-regression") for fact in facts)
    return Goal(
        facts=facts,
        outcome="contradicted" if violated else "as-predicted",
        prediction=Prediction(
            kafka=f"=={kafka}", clause=clause, loss=loss, hw_regression="some" if falls and not violated else "any"
        ),
        besides=tuple(fact for fact in found.facts if fact not in facts),
    )
