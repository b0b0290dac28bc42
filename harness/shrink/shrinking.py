"""Shrinks one record to a smaller scenario file with the same finding."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from ebbtide.errors import EbbtideError
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import ACKS_SPELLED, read_manifest
from ebbtide.record.verdict import Verdict
from harness.replay.finding import fact_of, fact_of_loss
from harness.replay.plan import plan
from harness.replay.recorded_run import LoadedRun
from harness.replay.replaying import launch_differences
from harness.runner.display import Display, RunState
from harness.runner.launch import Launch
from harness.runner.run import new_seed
from harness.shrink.file import KeptStep, file_text, kept_steps, start_scenario
from harness.shrink.goal import Goal, goal_from_record
from harness.shrink.journal import Journal, lock_folder
from harness.shrink.running import LOG, CandidateRunner
from harness.shrink.search import Search, SmallerScenario, Start
from harness.shrink.states import recorded_steps, with_state_triggers
from harness.shrink.steps import first_guesses
from harness.shrink.topology import LostPartition

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
