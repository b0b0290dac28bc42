"""Draws the random schedules of a night, guided by the coverage of all nights."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import msgspec

from ebbtide.errors import UsageError
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.steps.table import StepKind
from ebbtide.scenario.write import SCENARIO
from harness.nightly.job import Job, ReleaseTarget, Runtime, random_job
from harness.nightly.store import FinishedJob
from harness.random.guide import CORPUS, Guide, read_corpus
from harness.replay.recorded_run import scenario_to_repeat
from harness.runner.run import new_seed

ROUND = 4
"""How many schedules are drawn and then judged together, before coverage guides the next ones."""


class RandomJobs:
    """Draws the random jobs of a night, and adds their runs to the corpus in `folder`."""

    def __init__(self, folder: Path, without: Collection[StepKind] = ()) -> None:
        """Draw no step of the kinds `without`, which this host cannot carry out."""
        self._folder = folder
        self._without = without
        self._guides: dict[str, Guide] = {}
        self._drawn: dict[str, Scenario] = {}

    def check(self) -> None:
        """Read every corpus. Raises `UsageError` for a damaged one, before a run starts."""
        for corpus in sorted(self._folder.glob(f"*/{CORPUS}")):
            read_corpus(corpus)

    def next_round(self, target: ReleaseTarget, runtime: Runtime) -> Iterator[Job]:
        """Draw the next `ROUND` jobs on `target`."""
        for _ in range(ROUND):
            job = random_job(target, runtime, new_seed())
            self._drawn[job.key] = self._guide(target).next_schedule(job.number)
            yield job

    def scenario_of(self, job: Job) -> Scenario:
        """Return the scenario that was drawn for a job."""
        return self._drawn[job.key]

    def learn(self, finished: Iterable[FinishedJob]) -> None:
        """Add jobs that ran to the corpus; a failed job adds no coverage."""
        for done in finished:
            self._guide(done.job.target).add(self._drawn.pop(done.job.key), done.coverage)

    def catch_up(self, finished: Iterable[FinishedJob], runs: Path) -> None:
        """Add the random jobs of a killed night that the corpus lacks.

        `runs` holds their records.
        """
        for done in finished:
            target = done.job.target
            if done.job.origin != "random" or done.run_id is None or self._guide(target).has_run(done.job.scenario):
                continue
            try:
                scenario = scenario_to_repeat(runs / done.run_id / SCENARIO, target.kafka)
            except UsageError:
                continue
            self._guide(target).add(msgspec.structs.replace(scenario, kafka=(target.kafka,)), done.coverage)

    def _guide(self, target: ReleaseTarget) -> Guide:
        name = str(target)
        if name not in self._guides:
            folder = self._folder / name.replace(":", "-")
            self._guides[name] = Guide(folder, kafka=target.kafka, features=target.features, without=self._without)
        return self._guides[name]
