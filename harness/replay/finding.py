"""Reduces a verdict to its finding, so that two runs can be compared.

A finding has no counts and no offsets: these vary from run to run. It also leaves out what depends on when a client
looked (a sampled HW, a record that was read before it was lost), unless there is nothing else.

Answers from replays whether another release would have saved the lost records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from analysis.judge.outcome.reasons import unproven_reasons
from analysis.sentences.elections import is_loss
from analysis.sentences.words import MEANING
from ebbtide.record.outcomes import lost_counts, word_of
from ebbtide.record.predictions import OWN_PREDICTION, fitting_prediction
from ebbtide.record.verdict import AnomalyCount, Blamed, Loss, Outcome, PredictionKind, Verdict, count_acked_by_brokers
from ebbtide.rules.table import ANOMALIES, LOST, NO_COMMITTED_LOSS, KindRow
from ebbtide.scenario.steps.table import ADMIN_KINDS
from ebbtide.shown_text import plural
from harness.replay.recorded_run import LoadedRun

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


_NO_FAULTS = frozenset({"wait", *ADMIN_KINDS})
"""Kinds of step that are not faults."""


class ReplayAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Whether `kafka` would have saved the records.

    `saved` is yes only if every requested replay proved that it lost nothing, and no if one lost something.
    `clauses` are the clauses that explain the verdicts, release by release.
    """

    kafka: str
    saved: Literal["yes", "no", "cannot tell", "nothing to save"]
    why: str
    clauses: tuple[str, ...]


def answer(
    original: LoadedRun, kafka: str, replays: Sequence[LoadedRun], *, failed: Sequence[str] = ()
) -> ReplayAnswer:
    """Answer whether `kafka` would have saved the records that `original` lost.

    `failed`: the reasons why other replays did not finish or could not be judged.
    """
    lost = committed_lost(original)
    losing = [one for one in replays if committed_lost(one)]
    open_ = [reason for one in replays if (reason := why_inconclusive(one) or _why_not_comparable(one)) is not None]
    open_ += [f"{len(failed)} of {len(failed) + len(replays)} have no verdict: {failed[0]}"] if failed else []
    clauses = tuple(dict.fromkeys(clause(one) for one in (original, *replays)))
    here = f"Kafka {original.manifest.shown_kafka} lost {plural(lost, 'committed record')} ({_cause_names([original])})"
    saved: Literal["yes", "no", "cannot tell", "nothing to save"]
    if losing:
        saved = "no" if lost else "nothing to save"
        many = f" in {len(losing)} of {len(replays)} replays" if len(replays) > 1 else ""
        count = max(committed_lost(one) for one in losing)
        there = f"{kafka} lost {plural(count, 'committed record')}{many} ({_cause_names(losing)})"
        why = f"{here}; {there}" if lost else f"{there}, Kafka {original.manifest.shown_kafka} none that was found"
    elif open_ or not replays:
        saved, why = "cannot tell", f"{kafka} is inconclusive: {open_[0] if open_ else 'no replay was finished'}"
    elif not lost:
        saved, why = (
            "nothing to save",
            f"{kafka} lost no committed record, and the recorded run lost none that is known",
        )
    else:
        acked = sum(count_acked_by_brokers(one.verdict.counts, one.verdict.coverage) for one in replays if one.verdict)
        saved, why = "yes", f"{here}; {kafka} lost none of {acked:,} acked"
    return ReplayAnswer(kafka=kafka, saved=saved, why=why, clauses=clauses)


def committed_lost(run: LoadedRun) -> int:
    """Count the committed records known to be lost, with or without a known cause."""
    return 0 if run.verdict is None else lost_counts(run.verdict).committed


def why_inconclusive(run: LoadedRun) -> str | None:
    """Return why a run without a known loss does not prove that none exists, or None."""
    if run.verdict is None:
        return "it was not judged"
    open_ = unproven_reasons(run.manifest, run.scenario, run.steps)
    if open_:
        return open_[0]
    if run.manifest.final_consumer is None:
        return "there was no final read"
    found = next((one.status for one in run.verdict.properties if one.name == NO_COMMITTED_LOSS), "unknown")
    return None if found in ("holds", "violated") else "the judge could not decide whether committed records were lost"


def _why_not_comparable(run: LoadedRun) -> str | None:
    """Return why a run that lost nothing is not comparable with the record, or None.

    Its faults met a cluster in another state, or no record was acked.
    """
    if run.verdict is not None and not count_acked_by_brokers(run.verdict.counts, run.verdict.coverage):
        return "no record was acked"
    faults = [entry.index for entry in run.steps if entry.step not in _NO_FAULTS]
    for entry in run.steps:
        if entry.state.get("reached") is False and entry.index <= min(faults, default=-1):
            return f"it did not reach the recorded state before its first fault, step {min(faults)}"
    return None


def clause(run: LoadedRun) -> str:
    """Return the clause that explains the run's verdict.

    It is the meaning of the causes, or the prediction's clause.
    """
    kafka = run.manifest.kafka_name
    causes = sorted({one.cause for one in run.verdict.losses if one.committed}) if run.verdict is not None else []
    if causes:
        return f"{kafka}: " + "; ".join(MEANING[cause] for cause in causes)
    prediction = fitting_prediction(run.scenario, run.manifest)
    return f"{kafka}: " + (prediction.clause if prediction is not None else "the scenario predicts nothing for it")


def _cause_names(runs: Sequence[LoadedRun]) -> str:
    found = {one.cause for run in runs if run.verdict is not None for one in run.verdict.losses if one.committed}
    return ", ".join(sorted(found)) or "cause not known"
