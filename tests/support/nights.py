"""Nights without clusters: a store, a clock, and runs whose ends a test sets."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from pathlib import Path

import msgspec

from ebbtide.errors import EbbtideError, HarnessError, UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import Manifest, write_manifest
from ebbtide.record.verdict import Loss, Outcome, Verdict
from ebbtide.scenario import catalogue
from ebbtide.scenario.write import SCENARIO, text_of
from harness.cli.option_values import with_levels
from harness.nightly.job import Job, ReleaseTarget
from harness.nightly.night import IsJudging, Night
from harness.nightly.store import FinishedJob, JobEnd, NightPlan, Store

NIGHT = "20261121T010000"


def job(number: int = 1, scenario: str = "healthy", kafka: str = "4.3.1") -> Job:
    return Job(scenario=scenario, target=ReleaseTarget(kafka=kafka), runtime="local", number=number)


class World:
    """A store, a clock, and runs whose outcomes a test sets.

    Each run moves the clock on by ten seconds.
    """

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)
        self.plan = NightPlan(
            night=NIGHT, settings={"budget": "1h", "runtime": "local", "times": "99"}, started_s=1000.0
        )
        self.store.save_plan(self.plan)
        self.now_s = 1000.0
        self.outcomes: dict[str, Outcome] = {}
        self.fails: set[str] = set()
        self.refused: set[str] = set()
        self.disturbed: set[str] = set()
        self.ran: list[str] = []
        self.ran_when_judged: list[int] = []
        self.messages: list[str] = []

    def night(self, budget_s: float = 3600.0, is_judging: IsJudging = lambda _: False) -> Night:
        return Night(
            self.store,
            self.plan,
            scenarios={name: catalogue.find(name) for name in catalogue.names()},
            carry_out=self.carry_out,
            judge=self.judge,
            is_judging=is_judging,
            budget_s=budget_s,
            report=self.messages.append,
            clock=lambda: self.now_s,
        )

    def carry_out(self, jobs: Iterable[Job]) -> Generator[tuple[Job, Path | EbbtideError], None, None]:
        for job in jobs:
            try:
                yield job, self.run(job)
            except EbbtideError as error:
                yield job, error

    def run(self, job: Job) -> Path:
        self.now_s += 10
        self.ran.append(job.key)
        if job.key in self.fails:
            raise HarnessError("no room on the disk")
        if job.key in self.refused:
            raise UsageError("these steps need nodes with their own volumes")
        return self.record(job, "failed" if job.key in self.disturbed else "complete")

    def record(
        self, job: Job, status: str = "complete", *, name: str | None = None, replay_of: str | None = None
    ) -> Path:
        record = self.store.runs / (name or f"run-{len(self.ran)}-{job.number}")
        record.mkdir()
        manifest = Manifest(
            run_id=record.name,
            scenario=job.scenario,
            kafka=job.target.kafka,
            features={"eligible.leader.replicas.version": 1, **job.target.features},
            seed=7,
            replay_of=replay_of,
            start_ns=int(self.now_s * 1e9),
        )
        failure = "something outside of the run ended the process of producer-1" if status == "failed" else None
        end_ns = int(self.now_s * 1e9 + 5e9)
        write_manifest(
            RecordFolder(record), msgspec.structs.replace(manifest, end_ns=end_ns, status=status, failure=failure)
        )
        (record / "key").write_text(job.key)
        scenario = with_levels(catalogue.find("healthy"), job.target.features)
        (record / SCENARIO).write_text(text_of(msgspec.structs.replace(scenario, kafka=(job.target.kafka,))))
        return record

    def judge(self, record: Path) -> Verdict | EbbtideError:
        self.ran_when_judged.append(len(self.ran))
        return self.verdict(record)

    def verdict(self, record: Path) -> Verdict:
        outcome = self.outcomes.get((record / "key").read_text(), "as-predicted")
        loss = Loss(
            topic="t", partition=0, acks=-1, committed=True, cause="unexplained", count=3, first_offset=0, last_offset=2
        )
        bad = outcome == "contradicted"
        return Verdict(run_id=record.name, outcome=outcome, why=["a reason"], losses=[loss] if bad else [])


def finished_job(night: str, ended: JobEnd, scenario: str = "healthy", number: int = 1) -> FinishedJob:
    return FinishedJob(
        night=night, job=job(number, scenario), run_id=f"{night}-{number}", ended=ended, why=("a reason",)
    )
