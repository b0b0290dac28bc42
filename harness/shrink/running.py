"""Shrinks one record to a smaller scenario file with the same finding, and decides candidates on real clusters.

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
from ebbtide.record.manifest import ACKS_SPELLED, read_manifest
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
from harness.replay.finding import fact_of, fact_of_loss, finding
from harness.replay.plan import plan
from harness.replay.recorded_run import LoadedRun
from harness.replay.replaying import launch_differences
from harness.runner.display import Display, RunState
from harness.runner.launch import Launch
from harness.runner.run import RunRequest, new_seed, run_scenario
from harness.runner.session import Session
from harness.runner.side_by_side import run_in_turn, run_side_by_side
from harness.shrink.answers import CandidateRun
from harness.shrink.file import KeptStep, file_text, kept_steps, start_scenario
from harness.shrink.goal import Goal, goal_from_record
from harness.shrink.journal import Decision, Journal, lock_folder
from harness.shrink.search import Search, SmallerScenario, Start
from harness.shrink.states import recorded_steps, with_state_triggers
from harness.shrink.steps import first_guesses
from harness.shrink.topology import LostPartition

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


STATE_DIR = ".shrink"
"""Folder among the records: for each shrunk run its journal and the records of candidates that showed the finding."""


class ShrinkResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a shrink.

    `kept` are the steps of the record that are left. `runs` and `took_s`, their sum, count real runs, including those
    of earlier calls. `elapsed_s` is how long the search of this call took.
    """

    smaller: SmallerScenario
    goal: Goal
    text: str
    kept: tuple[KeptStep, ...] = ()
    runs: int
    took_s: float
    elapsed_s: float


def shrink(
    recorded: LoadedRun,
    *,
    launch: Launch,
    judge: Callable[[Path], Verdict],
    display: Display,
    budget_s: float,
    times: int,
    jobs: int = 1,
    apart: bool = False,
) -> ShrinkResult:
    """Shrink a record.

    Continues an earlier call for the same record, launch and folder of records.

    `apart` runs each candidate in its own process, even with one job, and ends it if it hangs.

    Raises `UsageError` for a record without a finding, `LockUnavailable` if another process shrinks it there now,
    `NotReproduced`, and `HarnessError` if the host fails or the journal cannot be written.
    """
    began = time.monotonic()
    goal = goal_from_record(recorded)
    if goal.besides:
        display.note(f"keeping {', '.join(goal.facts)}; the record also shows {', '.join(goal.besides)}")
    if (differs := launch_differences(recorded, launch)) is not None:
        display.note(differs)
    folder = launch.runs / STATE_DIR / recorded.manifest.run_id
    with lock_folder(folder):
        journal = Journal(folder, way=launch.describe_way(recorded.manifest.kafka_name))
        known = len(journal.runs())
        if known:
            display.note(f"continuing: {folder} has the answers of {known} runs")
        seed = recorded.manifest.seed if recorded.manifest.seed is not None else new_seed()
        runs = folder / "runs"
        if jobs > 1 or apart:
            display.note(f"running {jobs} candidates at once; their output goes to {runs / LOG}")
        search = Search(
            decide=CandidateRunner(
                goal=goal,
                kafka=recorded.manifest.kafka_name,
                seed=seed,
                launch=msgspec.structs.replace(launch, runs=runs),
                display=_QuietDisplay(display),
                judge=judge,
                jobs=jobs,
                apart=apart,
            ),
            journal=journal,
            time_left_s=lambda: budget_s - (time.monotonic() - began),
            note=display.note,
            jobs=jobs,
        )
        blamed = _blamed_partition(recorded, goal)
        by_clock = Start(scenario=start_scenario(plan(recorded).scenario, recorded, goal), was=recorded_steps(recorded))
        waiting = with_state_triggers(by_clock.scenario, recorded, blamed.partition if blamed is not None else None)
        starts = [by_clock] if waiting is None else [Start(scenario=waiting[0], was=waiting[1]), by_clock]
        display.note(
            f"running parts of the {len(by_clock.scenario.steps)} steps, then all, "
            f"on Kafka {recorded.manifest.shown_kafka}: each run is reported once it is judged"
        )
        smaller = search.carry_out(starts, first_guesses(recorded), blamed, times)
        ran = journal.runs()
        smaller = _without_ignored(smaller, [Path(one.record) for one in ran if one.record is not None])
        return ShrinkResult(
            smaller=smaller,
            goal=goal,
            text=file_text(smaller, recorded, goal),
            kept=kept_steps(recorded, smaller.indices),
            runs=len(ran),
            took_s=sum(one.took_s for one in ran),
            elapsed_s=time.monotonic() - began,
        )


def _without_ignored(smaller: SmallerScenario, records: Iterable[Path]) -> SmallerScenario:
    """Remove the properties that Kafka ignored in these runs.

    `ebbtide run` refuses a file with them.
    """
    ignored: set[str] = set()
    for record in records:
        with contextlib.suppress(EbbtideError):  # somebody removed the record
            ignored.update(read_manifest(RecordFolder(record)).ignored_properties)
    scenario = smaller.scenario
    scenario = msgspec.structs.replace(scenario, cluster=scenario.cluster.without_properties(ignored))
    return msgspec.structs.replace(smaller, scenario=scenario)


def _blamed_partition(recorded: LoadedRun, goal: Goal) -> LostPartition | None:
    """Return the partition that lost the most by the goal's causes.

    If no partition lost records, returns one that shows another of the facts.
    """
    verdict = recorded.verdict
    if verdict is None:
        return None
    losses = [one for one in verdict.losses if fact_of_loss(one) in goal.facts]
    worst = max(losses or verdict.losses, key=lambda one: (one.committed, one.count), default=None)
    if worst is not None:
        return LostPartition(f"{worst.topic}-{worst.partition}", ACKS_SPELLED.get(worst.acks))
    found = [f"{one.topic}-{one.partition}" for one in verdict.attributed if fact_of(one) in goal.facts]
    found += [f"{one.topic}-{one.partition}" for one in verdict.anomalies if one.count and one.kind in goal.facts]
    return LostPartition(found[0]) if found else None


class _QuietDisplay(Display):
    """A display for many runs: it shows their states and drops their notes."""

    def __init__(self, display: Display) -> None:
        self._display = display

    def note(self, text: str) -> None:
        """Drop the note."""

    def state(self, state: RunState) -> None:
        """Show the state of the cluster."""
        self._display.state(state)
