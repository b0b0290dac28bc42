"""What a verdict comes to, so that two runs can be said to show the same thing.

A finding leaves out how many records and which offsets: those are chance. It also leaves out what hangs on when a
client happened to look (a HW that was sampled, a record that was read before it was lost), unless there is nothing
else.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from ebbtide.record.verdict import Outcome, Verdict

_ATTRIBUTED = ("lost", "hw-regression")
"""Kinds that stand in `losses` and `regressions` with their cause."""
_NOT_KNOWN = "lost, cause not known"
_OF_RETRIES = {"duplicate"}
"""Whether a retry writes a record twice hangs on which request was under way. Of an idempotent producer's duplicates
there is a violated property besides."""


class RunFinding(msgspec.Struct, frozen=True, kw_only=True):
    """`facts`: each kind of anomaly with its cause, and each violated property, of the gravest sort that there is."""

    outcome: Outcome
    facts: tuple[str, ...]

    def told(self) -> str:
        """In a clause. Of a run that proved nothing it is not known that nothing was lost."""
        nothing = "nothing found" if self.outcome == "inconclusive" else "nothing lost"
        return f"{self.outcome}, {', '.join(self.facts) or nothing}"

    def again_in(self, replayed: RunFinding) -> bool:
        """Whether a replay shows the same, but for what a producer's retries make.

        Two runs that proved nothing have nothing in common.
        """
        if "inconclusive" in (self.outcome, replayed.outcome):
            return False
        return self.outcome == replayed.outcome and set(self.facts) ^ set(replayed.facts) <= _OF_RETRIES


def finding(verdict: Verdict) -> RunFinding:
    """The gravest that was found: violations and committed losses; else uncommitted losses; else other anomalies."""
    losses = {_loss(one.committed, one.cause) for one in verdict.losses if one.committed}
    violated = {f"violated {one.name}" for one in verdict.properties if one.status == "violated"}
    uncommitted = {_loss(one.committed, one.cause) for one in verdict.losses if not one.committed}
    unattributed = {_NOT_KNOWN} if _unattributed(verdict) and not verdict.losses else set()
    others = {one.kind for one in verdict.anomalies if one.count and one.kind not in _ATTRIBUTED}
    others |= {f"hw-regression by {one.cause}" for one in verdict.regressions}
    facts = losses | violated or uncommitted | unattributed or others
    return RunFinding(outcome=verdict.outcome, facts=tuple(sorted(facts)))


def facts_of(verdict: Verdict) -> set[str]:
    """Everything that the verdict says, partition by partition, without counts."""
    facts = {f"outcome {verdict.outcome}"}
    facts |= {f"{_loss(one.committed, one.cause)} on {one.topic}-{one.partition}" for one in verdict.losses}
    facts |= {f"hw-regression by {one.cause} on {one.topic}-{one.partition}" for one in verdict.regressions}
    facts |= {
        f"{one.kind} on {one.topic}-{one.partition}"
        for one in verdict.anomalies
        if one.count and one.kind not in _ATTRIBUTED
    }
    facts |= {f"{_NOT_KNOWN} on {partition}" for partition in _unattributed(verdict)}
    return facts | {f"violated {one.name}" for one in verdict.properties if one.status == "violated"}


def _loss(committed: bool, cause: str) -> str:
    return f"{'committed' if committed else 'uncommitted'} loss by {cause}"


def _unattributed(verdict: Verdict) -> set[str]:
    """The partitions of which more was lost than has a cause."""
    lost: Counter[str] = Counter()
    for anomaly in verdict.anomalies:
        lost[f"{anomaly.topic}-{anomaly.partition}"] += anomaly.count if anomaly.kind == "lost" else 0
    for loss in verdict.losses:
        lost[f"{loss.topic}-{loss.partition}"] -= loss.count
    return {partition for partition, count in lost.items() if count > 0}
