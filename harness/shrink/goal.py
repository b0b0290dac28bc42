"""Chooses the finding that a shrink keeps.

It is the gravest fact of the record.
"""

from __future__ import annotations

import shlex
from collections import Counter

import msgspec

from ebbtide.errors import UsageError
from ebbtide.record.verdict import Outcome, Verdict
from ebbtide.scenario.model import LossExpectation, Prediction
from ebbtide.scenario.write import SCENARIO
from harness.replay.finding import RunFinding, fact_of, finding, key_of
from harness.replay.recorded_run import LoadedRun

_COMMITTED, _UNCOMMITTED, _COMMITS = "loss.committed", "loss.uncommitted", "loss.commits"
_VIOLATED = "violated "


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """The facts to keep, and the outcome under `prediction` of a run that shows them.

    `besides` are the other facts of the record.
    """

    facts: tuple[str, ...]
    outcome: Outcome
    prediction: Prediction
    besides: tuple[str, ...] = ()

    @property
    def is_loss(self) -> bool:
        """Whether the finding needs a lost record."""
        return not {_COMMITTED, _UNCOMMITTED}.isdisjoint(map(key_of, self.facts))


def goal_from_record(recorded: LoadedRun) -> Goal:
    """Return the goal of shrinking a record: its gravest fact.

    Raises `UsageError` for a record that shows nothing.
    """
    found = finding(recorded.verdict) if recorded.verdict is not None else None
    if recorded.verdict is None or found is None or not found.facts:
        _refuse_incomplete(recorded)
        raise UsageError(
            "the record shows no loss, no anomaly and no violation: there is nothing to shrink",
            where=str(recorded.folder),
            next=f"ebbtide analyze {shlex.quote(str(recorded.folder))}",
        )
    keep = (gravest_fact(found, recorded.verdict),)
    return goal_to_keep(found, recorded.manifest.kafka, f"shown by run {recorded.manifest.run_id}", keep=keep)


def _refuse_incomplete(recorded: LoadedRun) -> None:
    """Raise `UsageError` for a record without a finding whose run did not complete, with the reason."""
    manifest, again = recorded.manifest, shlex.quote(str(recorded.folder / SCENARIO))
    if manifest.status == "complete":
        return
    how = "failed" if manifest.status == "failed" else "was interrupted"
    raise UsageError(
        f"the run {how}, and until then it showed no loss, no anomaly and no violation: there is nothing to shrink",
        where=str(recorded.folder),
        got=manifest.why_incomplete,
        next=manifest.failure_next or f"ebbtide run {again} --kafka {manifest.kafka_name}    (then shrink its record)",
    )


def gravest_fact(found: RunFinding, verdict: Verdict) -> str:
    """Return the gravest fact of the finding.

    An unexplained loss is the gravest, then a violation, then the fact with the highest count.
    """
    counts: Counter[str] = Counter()
    for one in verdict.attributed:
        counts[fact_of(one)] += one.count
    for anomaly in verdict.anomalies:
        counts[anomaly.kind] += anomaly.count
    return max(found.facts, key=lambda fact: (_is_unexplained(fact), fact.startswith(_VIOLATED), counts[fact]))


def _is_unexplained(fact: str) -> bool:
    """Whether nothing explains the loss of committed records."""
    return key_of(fact) == _COMMITTED and fact.endswith(" by unexplained")


def goal_to_keep(found: RunFinding, kafka: str, clause: str, *, keep: tuple[str, ...] | None = None) -> Goal:
    """Return the goal to keep the facts `keep` of a finding; None keeps all.

    Its prediction makes a run that shows them as predicted, or contradicted if one of them is a violation. It predicts
    a cause only if the finding has no second one: a run with both would contradict it.
    """
    facts = found.facts if keep is None else keep
    causes = {fact.partition(" by ")[2] for fact in found.facts if key_of(fact) in (_COMMITTED, _COMMITS)}
    violated = any(fact.startswith(_VIOLATED) or _is_unexplained(fact) for fact in facts)
    keys = set(map(key_of, facts))
    loss = LossExpectation()
    if _COMMITTED in keys and not violated:
        loss = msgspec.structs.replace(loss, committed="some")
        if len(causes) == 1:
            loss = msgspec.convert({"committed": "some", "cause": min(causes)}, LossExpectation)
    elif _UNCOMMITTED in keys:
        loss = LossExpectation(committed="none", uncommitted="some")
    if _COMMITS in keys and not violated:
        loss = msgspec.structs.replace(loss, commits="some")
    return Goal(
        facts=facts,
        outcome="contradicted" if violated else "as-predicted",
        prediction=Prediction(
            kafka=f"=={kafka}",
            clause=clause,
            loss=loss,
            hw_regression="some" if "hw_regression" in keys and not violated else "any",
        ),
        besides=tuple(fact for fact in found.facts if fact not in facts),
    )
