"""Shrinks one record, from its finding to the file: puts together what searches, what runs, and what remembers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from ebbtide.errors import EbbtideError
from ebbtide.record.manifest import ACKS_SPELLED, read_manifest
from ebbtide.record.verdict import Verdict
from harness.replay.plan import plan
from harness.replay.recorded import RecordedRun
from harness.replay.replaying import launch_differences
from harness.runner.display import Display, RunState
from harness.runner.launch import Launch
from harness.runner.run import new_seed
from harness.shrink.goal import COMMITTED, UNCOMMITTED, Goal, goal_from
from harness.shrink.journal import Journal, held
from harness.shrink.refute import Refuter
from harness.shrink.search import Search, Smaller, Start
from harness.shrink.states import recorded_steps, with_state_triggers
from harness.shrink.steps import guesses
from harness.shrink.topology import LostPartition
from harness.shrink.trying import LOG, Trying
from harness.shrink.writing import file_text, starting_point

STATE_DIR = ".shrink"
"""Folder among the records: per run that is being shrunk its journal, and the records of candidates that showed it."""


class Shrunk(msgspec.Struct, frozen=True, kw_only=True):
    """What a shrink came to. `runs` and `took_s` count real runs, those of earlier starts included."""

    smaller: Smaller
    goal: Goal
    text: str
    runs: int
    took_s: float


def shrink(
    recorded: RecordedRun,
    *,
    launch: Launch,
    judge: Callable[[Path], Verdict],
    display: Display,
    budget_s: float,
    times: int,
    jobs: int = 1,
    apart: bool = False,
    keep_all: bool = False,
) -> Shrunk:
    """Shrink; goes on where an earlier call for the same record, launch and folder of records was stopped.

    `keep_all`: every fact of the finding is to be kept, not the gravest alone. `apart`: a run has a process of its own
    even when it is alone, and is ended if it hangs. Raises `UsageError` for a record without a finding, `NotHeld` where
    another one shrinks it there now, `NotReproduced`, and `HarnessError` for a host that fails or a state that cannot
    be kept.
    """
    began = time.monotonic()
    goal = goal_from(recorded, keep_all=keep_all)
    if goal.besides:
        display.note(f"keeping {', '.join(goal.facts)}; the record also shows {', '.join(goal.besides)}")
    if (differs := launch_differences(recorded, launch)) is not None:
        display.note(differs)
    folder = launch.runs / STATE_DIR / recorded.manifest.run_id
    if keep_all and len(goal.facts) > 1:
        # Another goal has other answers.
        folder /= "all"
    with held(folder):
        journal = Journal(folder, way=launch.told(recorded.manifest.kafka))
        known = len(journal.runs())
        if known:
            display.note(f"going on: {known} runs are known from {folder}")
        seed = recorded.manifest.seed if recorded.manifest.seed is not None else new_seed()
        is_committed_loss = all(fact.startswith(COMMITTED) for fact in goal.facts)
        refuter = Refuter(recorded.manifest.kafka, recorded.manifest.features)
        runs = folder / "runs"
        if jobs > 1 or apart:
            display.note(f"running {jobs} candidates at once; their output goes to {runs / LOG}")
        search = Search(
            decide=Trying(
                goal=goal,
                kafka=recorded.manifest.kafka,
                seed=seed,
                launch=msgspec.structs.replace(launch, runs=runs),
                display=_Quiet(display),
                judge=judge,
                jobs=jobs,
                apart=apart,
            ),
            refute=refuter if is_committed_loss else lambda _scenario: None,
            journal=journal,
            time_left_s=lambda: budget_s - (time.monotonic() - began),
            note=display.note,
            jobs=jobs,
        )
        blamed = _blamed(recorded, goal)
        by_clock = Start(scenario=starting_point(plan(recorded).scenario, recorded, goal), was=recorded_steps(recorded))
        waiting = with_state_triggers(by_clock.scenario, recorded, blamed.partition if blamed is not None else None)
        starts = [by_clock] if waiting is None else [Start(scenario=waiting[0], was=waiting[1]), by_clock]
        display.note(
            f"running parts of the {len(by_clock.scenario.steps)} steps, then all, on Kafka {recorded.manifest.kafka}: "
            "a run is told once it is judged"
        )
        smaller = search.carry_out(starts, guesses(recorded), blamed, times)
        ran = journal.runs()
        smaller = _without_ignored(smaller, [Path(one.record) for one in ran if one.record is not None])
        return Shrunk(
            smaller=smaller,
            goal=goal,
            text=file_text(smaller, recorded, goal),
            runs=len(ran),
            took_s=sum(one.took_s for one in ran),
        )


def _without_ignored(smaller: Smaller, records: Iterable[Path]) -> Smaller:
    """Without the properties that Kafka ignored in these runs: `ebbtide run` refuses a file that has them."""
    ignored: set[str] = set()
    for record in records:
        with contextlib.suppress(EbbtideError):  # a person removed it
            ignored.update(read_manifest(record).ignored_properties)
    scenario = smaller.scenario
    scenario = msgspec.structs.replace(scenario, cluster=scenario.cluster.without(ignored))
    return msgspec.structs.replace(smaller, scenario=scenario)


def _blamed(recorded: RecordedRun, goal: Goal) -> LostPartition | None:
    """The partition that lost the most in the way that is to be kept; else that shows anything else of it."""
    verdict = recorded.verdict
    if verdict is None:
        return None
    losses = [
        one for one in verdict.losses if f"{COMMITTED if one.committed else UNCOMMITTED}{one.cause}" in goal.facts
    ]
    worst = max(losses or verdict.losses, key=lambda one: (one.committed, one.count), default=None)
    if worst is not None:
        return LostPartition(f"{worst.topic}-{worst.partition}", ACKS_SPELLED.get(worst.acks))
    fell = [one for one in verdict.regressions if f"hw-regression by {one.cause}" in goal.facts]
    found = [f"{one.topic}-{one.partition}" for one in fell]
    found += [f"{one.topic}-{one.partition}" for one in verdict.anomalies if one.count and one.kind in goal.facts]
    return LostPartition(found[0]) if found else None


class _Quiet(Display):
    """A display for many runs, which goes on after each: glances pass, what happens in a run does not."""

    def __init__(self, display: Display) -> None:
        self._display = display

    def note(self, text: str) -> None:
        """Left out."""

    def state(self, state: RunState) -> None:
        """Shown."""
        self._display.state(state)
