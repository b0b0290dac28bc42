"""Would another release have saved the records? The answer of replays on it, in a sentence, with what it stands on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from analysis.judge.outcome.deciding import unproven_reasons
from analysis.report.words import MEANING
from ebbtide.record.predicted import fitting
from ebbtide.record.properties import NO_COMMITTED_LOSS
from ebbtide.record.verdict import Verdict, acked_by_brokers
from ebbtide.scenario.steps.table import ADMIN_KINDS
from harness.replay.recorded import Recorded

_NO_FAULTS = frozenset({"wait", *ADMIN_KINDS})
"""Steps that break nothing."""


class ReplayAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`saved`: yes only where every replay that was asked for proved that it lost nothing; no where one lost something.

    `clauses`: what the verdicts stand on, release by release.
    """

    kafka: str
    saved: Literal["yes", "no", "cannot tell", "nothing to save"]
    why: str
    clauses: tuple[str, ...]


def answer(original: Recorded, kafka: str, replays: Sequence[Recorded], *, failed: Sequence[str] = ()) -> ReplayAnswer:
    """What the replays on `kafka` say to the one who lost records in `original`.

    `failed`: why others never finished, or could not be judged.
    """
    lost = committed_lost(original)
    losing = [one for one in replays if committed_lost(one)]
    open_ = [reason for one in replays if (reason := why_undecided(one) or _why_another(one)) is not None]
    open_ += [f"{len(failed)} of {len(failed) + len(replays)} have no verdict: {failed[0]}"] if failed else []
    clauses = tuple(dict.fromkeys(clause(one) for one in (original, *replays)))
    here = f"Kafka {original.manifest.kafka} lost {_counted(lost)} ({_causes([original])})"
    saved: Literal["yes", "no", "cannot tell", "nothing to save"]
    if losing:
        saved = "no" if lost else "nothing to save"
        many = f" in {len(losing)} of {len(replays)} replays" if len(replays) > 1 else ""
        count = max(committed_lost(one) for one in losing)
        there = f"{kafka} lost {_counted(count)}{many} ({_causes(losing)})"
        why = f"{here}; {there}" if lost else f"{there}, Kafka {original.manifest.kafka} none that was found"
    elif open_ or not replays:
        saved, why = "cannot tell", f"the run on {kafka} proved nothing: {open_[0] if open_ else 'none was finished'}"
    elif not lost:
        saved, why = "nothing to save", f"neither lost a committed record that was found, {kafka} none"
    else:
        acked = sum(acked_by_brokers(one.verdict.counts, one.verdict.coverage) for one in replays if one.verdict)
        saved, why = "yes", f"{here}; {kafka} lost none of {acked:,} acked"
    return ReplayAnswer(kafka=kafka, saved=saved, why=why, clauses=clauses)


def committed_lost(run: Recorded) -> int:
    """Committed records that are known to be lost, those without a known cause included."""
    verdict = run.verdict
    if verdict is None:
        return 0
    attributed = sum(one.count for one in verdict.losses)
    found = sum(one.count for one in verdict.anomalies if one.kind == "lost")
    return sum(one.count for one in verdict.losses if one.committed) + max(0, found - attributed)


def why_undecided(run: Recorded) -> str | None:
    """Why a run in which nothing is known to be lost does not prove that nothing was."""
    if run.verdict is None:
        return "it has not been judged"
    open_ = unproven_reasons(run.manifest, run.scenario, run.steps)
    if open_:
        return open_[0]
    if run.manifest.final_consumer is None:
        return "there was no final read"
    return None if _loss_is_decided(run.verdict) else "what was lost could not be decided"


def _why_another(run: Recorded) -> str | None:
    """Why a run that lost nothing did not ask what the record asks: its faults met another cluster, or no records."""
    if run.verdict is not None and not acked_by_brokers(run.verdict.counts, run.verdict.coverage):
        return "nothing was acked"
    faults = [entry.index for entry in run.steps if entry.step not in _NO_FAULTS]
    for entry in run.steps:
        if entry.state.get("reached") is False and entry.index <= min(faults, default=-1):
            return f"the recorded state did not come about before its first fault, step {min(faults)}"
    return None


def clause(run: Recorded) -> str:
    """What the run's verdict stands on: the meaning of its causes, else its prediction's clause."""
    kafka = run.manifest.kafka
    causes = sorted({one.cause for one in run.verdict.losses if one.committed}) if run.verdict is not None else []
    if causes:
        return f"{kafka}: " + "; ".join(MEANING[cause] for cause in causes)
    prediction = fitting(run.scenario, run.manifest)
    return f"{kafka}: " + (prediction.clause if prediction is not None else "the scenario predicts nothing for it")


def _loss_is_decided(verdict: Verdict) -> bool:
    return any(one.name == NO_COMMITTED_LOSS and one.status in ("holds", "violated") for one in verdict.properties)


def _counted(count: int) -> str:
    return f"{count:,} committed record{'s' if count != 1 else ''}"


def _causes(runs: Sequence[Recorded]) -> str:
    found = {one.cause for run in runs if run.verdict is not None for one in run.verdict.losses if one.committed}
    return ", ".join(sorted(found)) or "cause not known"
