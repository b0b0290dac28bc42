"""Reduces a verdict to its finding, so that two runs can be compared.

A finding has no counts and no offsets: these vary from run to run. It also leaves out what depends on when a client
looked (a sampled HW, a record that was read before it was lost), unless there is nothing else.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from ebbtide.record.outcomes import word_of
from ebbtide.record.predictions import OWN_PREDICTION
from ebbtide.record.verdict import AnomalyCount, Blamed, Loss, Outcome, PredictionKind, Verdict
from ebbtide.rules.table import ANOMALIES, LOST, KindRow

_NOT_KNOWN = "lost, cause not known"
_BY_CHANCE = frozenset(kind for kind, row in ANOMALIES.items() if row.depends_on_chance)


class RunFinding(msgspec.Struct, frozen=True, kw_only=True):
    """An outcome and its gravest facts.

    Facts are violated properties, and kinds of anomaly with their cause.
    """

    outcome: Outcome
    facts: tuple[str, ...]
    prediction: PredictionKind = "made"

    def describe(self) -> str:
        """Describe the finding in one line.

        An inconclusive run does not prove that nothing was lost.
        """
        nothing = "nothing found" if self.outcome == "inconclusive" else "nothing lost"
        return f"{word_of(self.outcome, self.prediction)}, {', '.join(self.facts) or nothing}"

    def is_repeated_in(self, replayed: RunFinding) -> bool:
        """Whether a replay has the same finding.

        What comes by chance (`depends_on_chance`) is not compared. An inconclusive run repeats nothing,
        and nothing repeats it.
        """
        if "inconclusive" in (self.outcome, replayed.outcome):
            return False
        return self.outcome == replayed.outcome and set(self.facts) ^ set(replayed.facts) <= _BY_CHANCE


def finding(verdict: Verdict) -> RunFinding:
    """Return the gravest facts: violations and committed losses.

    If there are none, returns uncommitted losses, or else other anomalies.
    """
    losses = {fact_of(one) for one in verdict.attributed if one.committed and is_loss(one)}
    violated = {f"violated {one.name}" for one in verdict.properties if one.status == "violated"}
    uncommitted = {fact_of(one) for one in verdict.attributed if not one.committed and is_loss(one)}
    unattributed = {_NOT_KNOWN} if _partly_attributed(verdict) and not verdict.losses else set()
    others = {one.kind for one in _without_cause(verdict)} | {fact_of(one) for one in verdict.attributed}
    facts = losses | violated or uncommitted | unattributed or others
    return RunFinding(outcome=verdict.outcome, facts=tuple(sorted(facts)), prediction=verdict.prediction)


def facts_of(verdict: Verdict) -> set[str]:
    """Return all facts of a verdict, partition by partition, without counts."""
    facts = {f"outcome {verdict.outcome}"}
    facts |= {f"{fact_of(one)} on {one.topic}-{one.partition}" for one in verdict.attributed}
    facts |= {f"{one.kind} on {one.topic}-{one.partition}" for one in _without_cause(verdict)}
    facts |= {f"{_NOT_KNOWN} on {partition}" for partition in _partly_attributed(verdict)}
    return facts | {f"violated {one.name}" for one in verdict.properties if one.status == "violated"}


def fact_of(one: Blamed) -> str:
    """Return what a finding says of anomalies whose cause is known: their kind and their cause."""
    kind = ANOMALIES.get(one.kind, KindRow(name=one.kind))
    return f"{kind.in_findings(committed=one.committed)} by {one.cause}"


def fact_of_loss(one: Loss) -> str:
    """Return what a finding says of lost records."""
    return f"{ANOMALIES[LOST].in_findings(committed=one.committed)} by {one.cause}"


def key_of(fact: str) -> str:
    """Return the key of a prediction that expects what a fact says; empty if none does."""
    for kind in ANOMALIES.values():
        for committed in (True, False):
            name = kind.in_findings(committed=committed)
            if fact == name or fact.startswith(f"{name} by "):
                return kind.key_of(committed=committed)
    return ""


def is_loss(one: Blamed) -> bool:
    """Whether the kind is among the gravest facts of a run."""
    return one.kind in ANOMALIES and ANOMALIES[one.kind].is_loss


def _without_cause(verdict: Verdict) -> list[AnomalyCount]:
    """Return the anomalies of the kinds of which no cause is known, except those that are predicted by a key."""
    attributed = {*OWN_PREDICTION, *(one.kind for one in verdict.attributed)}
    return [one for one in verdict.anomalies if one.count and one.kind not in attributed]


def _partly_attributed(verdict: Verdict) -> set[str]:
    """Return the partitions that lost more records than the attributed losses count."""
    lost: Counter[str] = Counter()
    for anomaly in verdict.anomalies:
        lost[f"{anomaly.topic}-{anomaly.partition}"] += anomaly.count if anomaly.kind == LOST else 0
    for loss in verdict.losses:
        lost[f"{loss.topic}-{loss.partition}"] -= loss.count
    return {partition for partition, count in lost.items() if count > 0}
