"""Shrinks one record, from its finding to the file: puts together what searches, what runs, and what remembers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from analysis.verdict import Verdict
from harness.errors import UsageError
from harness.replay.finding import finding
from harness.replay.plan import plan
from harness.replay.recorded import Recorded
from harness.runner.display import Display, RunState
from harness.runner.launch import Launch
from harness.runner.run import new_seed
from harness.shrink.journal import Journal
from harness.shrink.refute import Refuter
from harness.shrink.search import Search, Smaller
from harness.shrink.steps import guesses
from harness.shrink.trying import COMMITTED, Goal, Trying, goal_of
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


def goal_from(recorded: Recorded) -> Goal:
    """The finding to keep. Raises `UsageError` for a record that shows nothing."""
    found = finding(recorded.verdict) if recorded.verdict is not None else None
    if found is None or not found.facts:
        raise UsageError(
            "there is nothing to keep while shrinking: the record shows no loss, no anomaly and no violation",
            where=str(recorded.folder),
            next=f"ebbtide analyze {recorded.folder}",
        )
    return goal_of(found, recorded.manifest.kafka, f"shown by run {recorded.manifest.run_id}")


def shrink(
    recorded: Recorded,
    *,
    launch: Launch,
    judge: Callable[[Path], Verdict],
    display: Display,
    budget_s: float,
    times: int,
) -> Shrunk:
    """Shrink; goes on where an earlier call for the same record and folder of records was stopped.

    Raises `UsageError` for a record without a finding, `NotReproduced`, and `HarnessError` for a state that cannot be
    kept.
    """
    began = time.monotonic()
    goal = goal_from(recorded)
    folder = launch.runs / STATE_DIR / recorded.manifest.run_id
    journal = Journal(folder)
    known = len(journal.runs())
    if known:
        display.note(f"going on: {known} runs are known from {folder}")
    seed = recorded.manifest.seed if recorded.manifest.seed is not None else new_seed()
    is_committed_loss = all(fact.startswith(COMMITTED) for fact in goal.facts)
    refuter = Refuter(recorded.manifest.kafka, recorded.manifest.features)
    search = Search(
        decide=Trying(
            goal=goal,
            kafka=recorded.manifest.kafka,
            seed=seed,
            launch=msgspec.structs.replace(launch, runs=folder / "runs"),
            display=_Quiet(display),
            judge=judge,
        ),
        refute=refuter if is_committed_loss else lambda _scenario: None,
        journal=journal,
        time_left_s=lambda: budget_s - (time.monotonic() - began),
        note=display.note,
    )
    start = starting_point(plan(recorded).scenario, recorded, goal)
    smaller = search.carry_out(start, guesses(recorded), _blamed(recorded), times)
    ran = journal.runs()
    return Shrunk(
        smaller=smaller,
        goal=goal,
        text=file_text(smaller, recorded, goal),
        runs=len(ran),
        took_s=sum(one.took_s for one in ran),
    )


def _blamed(recorded: Recorded) -> str | None:
    """The partition that lost the most."""
    losses = recorded.verdict.losses if recorded.verdict is not None else []
    worst = max(losses, key=lambda one: (one.committed, one.count), default=None)
    return f"{worst.topic}-{worst.partition}" if worst is not None else None


class _Quiet(Display):
    """A display for many runs, which goes on after each: glances pass, what happens in a run does not."""

    def __init__(self, display: Display) -> None:
        self._display = display

    def note(self, text: str) -> None:
        """Left out."""

    def state(self, state: RunState) -> None:
        """Shown."""
        self._display.state(state)
