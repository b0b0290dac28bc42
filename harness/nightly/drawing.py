"""The random part of a night: what is drawn next, guided by all nights of the store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from ebbtide.errors import UsageError
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.parse import load
from ebbtide.scenario.steps.table import StepKind
from ebbtide.scenario.write import SCENARIO
from harness.nightly.job import Job, ReleaseTarget, Runtime, random_job
from harness.nightly.store import Done
from harness.random.guide import Guide
from harness.runner.run import new_seed

ROUND = 4
"""Schedules that are drawn before it is known what the first of them reached: they are judged together."""


class Drawing:
    """Draws the jobs of a night and learns from its runs; the corpus is kept in `folder`."""

    def __init__(self, folder: Path, without: Collection[StepKind] = ()) -> None:
        """`without`: kinds of step that the host cannot do."""
        self._folder = folder
        self._without = without
        self._guides: dict[str, Guide] = {}
        self._drawn: dict[str, Scenario] = {}

    def jobs(self, target: ReleaseTarget, runtime: Runtime) -> Iterator[Job]:
        """A round of jobs on `target`."""
        for _ in range(ROUND):
            job = random_job(target, runtime, new_seed())
            self._drawn[job.key] = self._guide(target).next(job.number)
            yield job

    def scenario(self, job: Job) -> Scenario:
        """What was drawn for a job."""
        return self._drawn[job.key]

    def learn(self, dones: Iterable[Done]) -> None:
        """Keep what runs reached; one that failed is known by its schedule alone."""
        for done in dones:
            self._guide(done.job.target).told(self._drawn.pop(done.job.key), done.coverage)

    def catch_up(self, dones: Iterable[Done], runs: Path) -> None:
        """Keep what runs of a killed night reached that it did not come to learn; their records are in `runs`."""
        for done in dones:
            if (
                done.job.origin != "random"
                or done.run_id is None
                or self._guide(done.job.target).knows(done.job.scenario)
            ):
                continue
            try:
                scenario = load(runs / done.run_id / SCENARIO, to_run=True)
            except UsageError:
                continue
            self._guide(done.job.target).told(scenario, done.coverage)

    def _guide(self, target: ReleaseTarget) -> Guide:
        name = str(target)
        if name not in self._guides:
            folder = self._folder / name.replace(":", "-")
            self._guides[name] = Guide(folder, kafka=target.kafka, features=target.features, without=self._without)
        return self._guides[name]
