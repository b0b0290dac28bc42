"""Answers from replays whether another release would have saved the lost records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from analysis.judge.outcome.reasons import unproven_reasons
from analysis.sentences.words import MEANING
from ebbtide.record.outcomes import lost_counts
from ebbtide.record.predictions import fitting_prediction
from ebbtide.record.verdict import Verdict, count_acked_by_brokers
from ebbtide.rules.table import NO_COMMITTED_LOSS
from ebbtide.scenario.steps.table import ADMIN_KINDS
from ebbtide.shown_text import plural
from harness.replay.recorded_run import LoadedRun

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
    here = f"Kafka {original.manifest.shown_kafka} lost {_count_text(lost)} ({_cause_names([original])})"
    saved: Literal["yes", "no", "cannot tell", "nothing to save"]
    if losing:
        saved = "no" if lost else "nothing to save"
        many = f" in {len(losing)} of {len(replays)} replays" if len(replays) > 1 else ""
        count = max(committed_lost(one) for one in losing)
        there = f"{kafka} lost {_count_text(count)}{many} ({_cause_names(losing)})"
        why = f"{here}; {there}" if lost else f"{there}, Kafka {original.manifest.shown_kafka} none that was found"
    elif open_ or not replays:
        saved, why = "cannot tell", f"{kafka} is inconclusive: {open_[0] if open_ else 'no replay was finished'}"
    elif not lost:
        saved, why = "nothing to save", f"{kafka} lost no committed record, and none is known to be lost in the record"
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
    return None if _is_loss_decided(run.verdict) else "the judge could not decide whether committed records were lost"


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


def _is_loss_decided(verdict: Verdict) -> bool:
    return any(one.name == NO_COMMITTED_LOSS and one.status in ("holds", "violated") for one in verdict.properties)


def _count_text(count: int) -> str:
    return plural(count, "committed record")


def _cause_names(runs: Sequence[LoadedRun]) -> str:
    found = {one.cause for run in runs if run.verdict is not None for one in run.verdict.losses if one.committed}
    return ", ".join(sorted(found)) or "cause not known"
