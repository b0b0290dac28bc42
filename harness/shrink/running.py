"""Decides candidates on real clusters.

Runs each candidate, and judges its record unless that is needless.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path

import msgspec
import pyarrow.compute as pc

from ebbtide.errors import EbbtideError, HarnessError, StepImpossible, UsageError
from ebbtide.record.files import RecordFolder, write_atomically
from ebbtide.record.manifest import read_manifest
from ebbtide.record.steps import read_steps
from ebbtide.record.sums import update_sums
from ebbtide.record.verdict import Verdict
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.steps.admin import RequestStep
from ebbtide.scenario.steps.process import RollingStep, UpgradeStep
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.triggers import AckedTrigger, AfterTrigger
from ebbtide.scenario.write import SCENARIO, recorded_text_of
from ebbtide.untrusted.parquet import read_rows
from harness.replay.finding import finding
from harness.runner.display import Display
from harness.runner.launch import Launch
from harness.runner.run import RunRequest, run_scenario
from harness.runner.session import Session
from harness.runner.side_by_side import run_in_turn, run_side_by_side
from harness.shrink.answers import CandidateRun
from harness.shrink.goal import Goal
from harness.shrink.journal import Decision

_STATE_SLACK_S = 8.0
"""A step that waits this much longer than session and lag take waits for a state that does not come."""
_SETTLE_SLACK_S = 18.0
_SLACK_S = 5.0
LOG = "runs.log"
"""File beside the records of candidates that ran in processes of their own: the output of these runs."""


class CandidateRunner:
    """Runs candidates of one finding on one release, `jobs` at once.

    Keeps the records of the candidates that show it.

    Each run has its own folder in `launch.runs`. With several jobs, or `apart`, each run also has its own process, and
    writes its output to a file beside the folders.
    """

    def __init__(
        self,
        *,
        goal: Goal,
        kafka: str,
        seed: int,
        launch: Launch,
        display: Display,
        judge: Callable[[Path], Verdict],
        jobs: int = 1,
        apart: bool = False,
    ) -> None:
        self._goal = goal
        self._kafka = kafka
        self._seed = seed
        self._launch = launch
        self._display = display
        self._judge = judge
        self._jobs = jobs
        self._apart = apart or jobs > 1

    def __call__(self, wanted: Iterable[CandidateRun]) -> Generator[tuple[int, Decision | HarnessError], None, None]:
        """Yield the number of each candidate with its decision or failure.

        The failures are those of the harness. Removes the records of runs that did not show the
        finding.
        """
        began: dict[int, float] = {}

        def requests() -> Iterator[tuple[CandidateRun, RunRequest]]:
            for one in wanted:
                number, key, scenario = one
                began[number] = time.monotonic()
                launch = msgspec.structs.replace(self._launch, runs=self._launch.runs / key)
                yield (
                    one,
                    launch.request(
                        with_short_deadlines(scenario), self._kafka, self._seed, allow_unknown_properties=True
                    ),
                )

        if not self._apart:
            ends = run_in_turn(requests(), self._display, carry_out_or_stop)
        else:
            self._launch.runs.mkdir(parents=True, exist_ok=True)
            log = self._launch.runs / LOG
            ends = run_side_by_side(requests(), at_once=self._jobs, log=log, carry_out=carry_out_or_stop)
        with contextlib.closing(ends):
            for (number, key, scenario), end in ends:
                decision = self._decision(scenario, end)
                if isinstance(decision, HarnessError) or not decision.shows:
                    shutil.rmtree(self._launch.runs / key, ignore_errors=True)
                if isinstance(decision, Decision):
                    decision = msgspec.structs.replace(decision, took_s=time.monotonic() - began[number])
                yield number, decision

    def _decision(self, scenario: Scenario, end: Path | EbbtideError) -> Decision | HarnessError:
        if isinstance(end, Path):
            record = RecordFolder(end)
            manifest = read_manifest(record)
            if manifest.status == "failed":
                # Something outside of the run ended it early, which says nothing about the candidate.
                return HarnessError(manifest.why_incomplete or "the run failed", where=str(end))
            why = self._why_not(record, scenario)
            return Decision(shows=why is None, why=why or "", record=str(end) if why is None else None)
        if isinstance(end, StepImpossible):
            # The candidate made this step impossible, such as the kill of a node that is down. Any other failure is
            # the host's, and says nothing about the candidate.
            return Decision(shows=False, why=f"{end.where} could not be carried out: {end.what}")
        return end if isinstance(end, HarnessError) else HarnessError(end.what, where=end.where, got=end.got)

    def _why_not(self, record: RecordFolder, scenario: Scenario) -> str | None:
        """Say why the run does not show the finding; None if its verdict shows it."""
        for entry in read_steps(record) or []:
            if entry.fired_ns is None and not entry.optional:
                return f"step {entry.index} ({entry.step}) never fired"
        if self._goal.is_loss and not is_any_acked_record_missing(record):
            return "the final read has every acked record"
        # The shorter deadlines are not part of the experiment: the record keeps the scenario that will be written.
        as_written = msgspec.structs.replace(scenario, kafka=(self._kafka,))
        write_atomically(record / SCENARIO, recorded_text_of(as_written).encode())
        update_sums(record, SCENARIO.__eq__)
        verdict = self._judge(record.path)
        found = finding(verdict)
        shown = set(self._goal.facts) <= set(found.facts)
        if not shown or found.outcome != self._goal.outcome:
            return f"{found.describe()}{_reason(verdict) if shown else ''}"
        return None


def carry_out_or_stop(request: RunRequest, display: Display) -> Path:
    """Run a candidate.

    If a step never fired, skip the settling and the final read, which would only take time.
    """

    def drive(session: Session) -> None:
        session.open()
        if session.run_steps():
            session.finish()

    return run_scenario(request, display, drive)


def is_any_acked_record_missing(record: RecordFolder) -> bool:
    """Whether the final read lacks an acked record; true if that is unknown.

    Without one, nothing can be lost.
    """
    final = read_manifest(record).final_consumer
    sends, polls = record.files("sends"), record.files("polls")
    if final is None or not sends or not polls:
        return True
    try:
        sent = read_rows(sends, "sends", columns=["status", "value"])
        read = read_rows(polls, "polls", columns=["consumer", "value"])
    except UsageError:
        return True
    acked = sent.filter(pc.equal(sent["status"], "acked"))["value"]
    there = read.filter(pc.equal(read["consumer"], final))["value"]
    return not pc.all(pc.is_in(acked, value_set=there.combine_chunks())).as_py() if len(acked) else False


def with_short_deadlines(scenario: Scenario) -> Scenario:
    """Return the scenario with shorter deadlines.

    A candidate whose states do not come therefore fails soon. Each deadline is still longer than the
    session, the lag, the time or the records that its step waits for.
    """
    cluster = scenario.cluster
    state_s = cluster.session_timeout_s + cluster.replica_lag_max_s
    rates = [one.rate_per_s for one in scenario.producers]
    rate = None if None in rates else sum(one or 0.0 for one in rates)

    def deadline_s(step: StepSpec) -> float:
        if isinstance(step, RollingStep | UpgradeStep | RequestStep):
            # The deadline of these steps bounds more than the wait for the trigger.
            return step.deadline_s
        trigger, most_s = step.trigger, state_s + _STATE_SLACK_S
        if isinstance(trigger, AfterTrigger):
            most_s = max(most_s, trigger.seconds + _SLACK_S)
        if isinstance(trigger, AckedTrigger) and rate:
            most_s = max(most_s, trigger.records / rate + _SLACK_S)
        return min(step.deadline_s, most_s)

    return msgspec.structs.replace(
        scenario,
        steps=tuple(step.replace(deadline_s=deadline_s(step)) for step in scenario.steps),
        settle_s=min(scenario.settle_s, state_s + _SETTLE_SLACK_S),
    )


def _reason(verdict: Verdict) -> str:
    return f" ({verdict.why[0]})" if verdict.why else ""
