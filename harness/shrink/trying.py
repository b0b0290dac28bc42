"""Decides a candidate on a real cluster: runs it, and judges it where the record does not already say no."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from analysis.verdict import Outcome, Verdict
from harness.errors import HarnessError
from harness.record.files import write_atomically
from harness.record.manifest import read_manifest
from harness.record.steps import read_steps
from harness.record.tables import table_files
from harness.replay.finding import Finding, finding
from harness.runner.display import Display
from harness.runner.launch import Launch
from harness.runner.run import run_scenario
from harness.runner.session import Session
from harness.scenario.model import LossExpectation, Prediction, Scenario, StepSpec
from harness.scenario.write import SCENARIO, text_of
from harness.shrink.journal import Decision

_SETTLE_MAX_S = 25.0
_DEADLINE_MAX_S = 15.0
"""A step that waits much longer than its sessions and lags take waits for what does not come."""

COMMITTED = "committed loss by "
UNCOMMITTED = "uncommitted loss by "


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """The finding to keep, and how a run ends that shows it under `prediction`."""

    facts: tuple[str, ...]
    outcome: Outcome
    prediction: Prediction

    @property
    def is_loss(self) -> bool:
        """Whether it cannot be had without an acked record that is gone."""
        return any(fact.startswith((COMMITTED, UNCOMMITTED)) for fact in self.facts)


def goal_of(found: Finding, kafka: str, clause: str) -> Goal:
    """What to predict so that the finding, and nothing else, is as predicted; a violation can only contradict."""
    committed = [fact.removeprefix(COMMITTED) for fact in found.facts if fact.startswith(COMMITTED)]
    violated = any(fact.startswith("violated ") or fact == COMMITTED + "unexplained" for fact in found.facts)
    uncommitted = any(fact.startswith(UNCOMMITTED) for fact in found.facts)
    loss = LossExpectation()
    if committed and not violated:
        loss = msgspec.structs.replace(loss, committed="some")
        if len(committed) == 1:
            loss = msgspec.convert({"committed": "some", "cause": committed[0]}, LossExpectation)
    elif uncommitted:
        loss = LossExpectation(committed="none", uncommitted="some")
    falls = any(fact.startswith("hw-regression") for fact in found.facts)
    return Goal(
        facts=found.facts,
        outcome="contradicted" if violated else "as-predicted",
        prediction=Prediction(
            kafka=f"=={kafka}", clause=clause, loss=loss, hw_regression="some" if falls and not violated else "any"
        ),
    )


class Trying:
    """Runs candidates of one finding on one release; keeps the records of those that showed it."""

    def __init__(
        self,
        *,
        goal: Goal,
        kafka: str,
        seed: int,
        launch: Launch,
        display: Display,
        judge: Callable[[Path], Verdict],
    ) -> None:
        self._goal = goal
        self._kafka = kafka
        self._seed = seed
        self._launch = launch
        self._display = display
        self._judge = judge

    def __call__(self, scenario: Scenario) -> Decision:
        """One run. A failure of the harness is a run that shows nothing; its record is kept."""
        began = time.monotonic()
        request = self._launch.request(_hurried(scenario), self._kafka, self._seed)
        try:
            record = run_scenario(request, self._display, _whole_or_nothing)
        except HarnessError as error:
            return Decision(shows=False, why=f"the run failed: {error.what}", took_s=time.monotonic() - began)
        why = self._why_not(record, scenario)
        if why is not None:
            shutil.rmtree(record, ignore_errors=True)
        return Decision(
            shows=why is None,
            why=why or "",
            took_s=time.monotonic() - began,
            record=str(record) if why is None else None,
        )

    def _why_not(self, record: Path, scenario: Scenario) -> str | None:
        """Why the run does not show the finding; None: it does, as fully judged."""
        for entry in read_steps(record) or []:
            if entry.fired_ns is None and not entry.optional:
                return f"step {entry.index} ({entry.step}) never fired"
        if self._goal.is_loss and not anything_missing(record):
            return "every acked record stands in the final read"
        # Hurrying is no part of the experiment: what is kept and judged is what will be written.
        as_written = msgspec.structs.replace(scenario, kafka=(self._kafka,))
        write_atomically(record / SCENARIO, text_of(as_written).encode())
        verdict = self._judge(record)
        found = finding(verdict)
        if found.facts != self._goal.facts or found.outcome != self._goal.outcome:
            return f"{found.told()}{_reason(verdict) if found.facts == self._goal.facts else ''}"
        return None


def _whole_or_nothing(session: Session) -> None:
    """A schedule of which a step never fired shows nothing: settling and reading would only take time."""
    session.open()
    if session.run_steps():
        session.finish()


def anything_missing(record: Path) -> bool:
    """Whether an acked value is not in the final read: without one, nothing can be lost. True where it is unknown."""
    final = read_manifest(record).final_consumer
    sends, polls = table_files(record, "sends"), table_files(record, "polls")
    if final is None or not sends or not polls:
        return True
    try:
        sent = ds.dataset([str(file) for file in sends], format="parquet").to_table(columns=["status", "value"])
        read = ds.dataset([str(file) for file in polls], format="parquet").to_table(columns=["consumer", "value"])
    except (pa.ArrowException, OSError):
        return True
    acked = sent.filter(pc.equal(sent["status"], "acked"))["value"]
    there = read.filter(pc.equal(read["consumer"], final))["value"]
    return not pc.all(pc.is_in(acked, value_set=there.combine_chunks())).as_py() if len(acked) else False


def _hurried(scenario: Scenario) -> Scenario:
    """With shorter deadlines: a candidate whose states do not come about should say so soon."""

    def hurried(step: StepSpec) -> StepSpec:
        return msgspec.structs.replace(step, deadline_s=min(step.deadline_s, _DEADLINE_MAX_S))

    return msgspec.structs.replace(
        scenario,
        steps=tuple(hurried(step) for step in scenario.steps),
        settle_s=min(scenario.settle_s, _SETTLE_MAX_S),
    )


def _reason(verdict: Verdict) -> str:
    return f" ({verdict.why[0]})" if verdict.why else ""
