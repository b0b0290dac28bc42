"""Runs the jobs of one night until its budget ends, and writes down how each one ended."""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import psutil

from analysis.judge.outcome.prediction import known_bug_of
from analysis.sentences.elections import is_loss
from ebbtide.errors import EbbtideError, ExitCode, HarnessError, UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import Manifest, read_manifest, records_of
from ebbtide.record.outages import service_figures
from ebbtide.record.outcomes import count_committed_lost
from ebbtide.record.verdict import EXIT_OF_OUTCOME, Verdict, disturbance_of
from ebbtide.releases.known_releases import parse_version
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.parse import load
from ebbtide.scenario.write import SCENARIO
from harness.nightly.job import Job, ReleaseTarget, Runtime, random_job
from harness.nightly.store import OF_OWN_CLIENTS, FinishedJob, NightPlan, SkippedJob, Store

BATCH = 16
"""After how many judged runs the night follows up contradictions."""
UNJUDGED_MOST = 64
"""With so many runs that are not judged, no other run starts."""
GIVE_UP_AFTER = 3
"""The night gives up after this many failures in a row: the next run would fail too."""
_RANDOM = re.compile(r"random-(\d+)")

CarryOut = Callable[[Iterable[Job]], Generator[tuple[Job, Path | EbbtideError], None, None]]
"""Runs jobs; yields each, as it ends, with its record or the error that prevented one.

It asks for the next job only when it can start it.
"""
Judge = Callable[[Path], Verdict | EbbtideError]
"""Judges a record; returns an error if it cannot be read. Raises `EbbtideError` if judging cannot start."""
IsJudging = Callable[[Path], bool]
"""Whether `Judge` would wait for a record."""


class RepeatedFailures(HarnessError):
    """The harness failed several times in a row; the runs until then are judged."""


FailOn = Literal["inconclusive", "contradicted", "loss"]
"""The mildest outcome of a run that fails a night; with `loss`, also any loss of committed records."""


def judged_job(night: str, job: Job, record: RecordFolder, verdict: Verdict) -> FinishedJob:
    """Return a job as the history has it, from its record and verdict. Raises `UsageError` without a manifest."""
    manifest = read_manifest(record)
    causes, commits = Counter[str](), Counter[str]()
    for one in verdict.attributed:
        if is_loss(one):
            (causes if one.group is None else commits)[str(one.cause)] += one.count
    for own in verdict.own_losses:
        causes[OF_OWN_CLIENTS] += own.lost
    took_ns = (manifest.end_ns or 0) - (manifest.start_ns or 0)
    disturbance = disturbance_of(manifest, verdict)
    return FinishedJob(
        night=night,
        job=job,
        run_id=record.path.name,
        ended=verdict.outcome if disturbance is None else "failed",
        why=tuple(verdict.why) if disturbance is None else (disturbance, *verdict.why),
        causes=causes,
        commits=commits,
        coverage=verdict.coverage,
        known_bug=known_bug_of(verdict.why),
        figures=service_figures(verdict),
        prediction=verdict.prediction,
        lost_committed=count_committed_lost(verdict),
        seed=manifest.seed,
        took_s=max(0, took_ns) / 1e9,
    )


def exit_code(finished: Sequence[FinishedJob], fail_on: FailOn = "inconclusive") -> ExitCode:
    """Return the exit code of the worst run that is not expected.

    A night without runs is inconclusive, whatever fails it. A run that the harness or its host failed always counts,
    and so does a run that something outside of it ended.
    """
    if not finished:
        return ExitCode.INCONCLUSIVE
    ends = [one.ended for one in finished if not one.is_expected]
    codes = [ExitCode.HARNESS_FAILED if one == "failed" else EXIT_OF_OUTCOME[one] for one in ends]
    counted = [one for one in codes if fail_on != "contradicted" or one is not ExitCode.INCONCLUSIVE]
    if fail_on == "loss" and any(one.lost_committed and one.ended != "inconclusive" for one in finished):
        counted.append(ExitCode.CONTRADICTED)
    return ExitCode.worst([ExitCode.AS_PREDICTED, *counted])


class Night:
    """Carries out the plan of one night, and adds each judged job to the history; `scenarios` by their names."""

    def __init__(
        self,
        store: Store,
        plan: NightPlan,
        *,
        scenarios: Mapping[str, Scenario],
        carry_out: CarryOut,
        judge: Judge,
        is_judging: IsJudging,
        budget_s: float,
        report: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._plan = plan
        self._scenarios = scenarios
        self._carry_out = carry_out
        self._judge = judge
        self._is_judging = is_judging
        self._report = report
        self._clock = clock
        self.until_s = plan.started_s + budget_s
        self._failed_in_a_row = 0
        self.done = [one for one in store.history() if one.night == plan.night]

    def run(
        self, jobs: Iterable[Job], *, until_s: float | None = None, after_batch: Callable[[], None] = lambda: None
    ) -> list[FinishedJob]:
        """Run the jobs that remain of this night while there is time; return those.

        `until_s`: the latest time to start a run, in seconds since the Unix epoch; at most the end of the budget.
        Runs start while others are judged. `after_batch` is called each time `BATCH` more runs have been judged.
        Raises `RepeatedFailures` when the harness failed several times in a row, and `EbbtideError` when the runs
        cannot be judged: the next start of the night judges them with `judge_unjudged`.
        """
        end_s = self.until_s if until_s is None else min(until_s, self.until_s)
        before = len(self.done)
        done = {one.job.key for one in self.done}
        started_s: dict[str, float] = {}

        def jobs_in_time() -> Iterator[Job]:
            for job in jobs:
                if self._clock() >= end_s:
                    return
                if job.key not in done:
                    self._report(f"{job.label}: started")
                    started_s[job.key] = self._clock()
                    yield job

        unjudged: list[tuple[Path, Job]] = []
        judged = 0
        try:
            with contextlib.closing(self._carry_out(jobs_in_time())) as ends:
                for job, end in ends:
                    if isinstance(end, EbbtideError):
                        self._note_failure(job, end, self._clock() - started_s[job.key])
                        continue
                    self._failed_in_a_row = 0
                    unjudged.append((end, job))
                    ready = self._ready_of(unjudged)
                    self._note_verdicts(ready)
                    del unjudged[: len(ready)]
                    judged += len(ready)
                    if judged >= BATCH:
                        judged = 0
                        after_batch()
        except RepeatedFailures:
            self._note_verdicts(unjudged)
            raise
        self._note_verdicts(unjudged)
        return self.done[before:]

    def _ready_of(self, unjudged: Sequence[tuple[Path, Job]]) -> Sequence[tuple[Path, Job]]:
        """Return the first of these runs, as many as are judged; one that is not if too many wait."""
        ready = tuple(itertools.takewhile(lambda one: not self._is_judging(one[0]), unjudged))
        return ready or tuple(unjudged[: max(0, len(unjudged) - UNJUDGED_MOST + 1)])

    def not_reached(self, jobs: Iterable[Job]) -> tuple[SkippedJob, ...]:
        """Return the jobs that had no turn: their share of the budget was spent, or the host failed."""
        done = {one.job.key for one in self.done}
        why = "the night ended before its turn; the next night begins with it"
        return tuple(SkippedJob(job=one, why=why) for one in jobs if one.key not in done)

    @property
    def is_over(self) -> bool:
        """Whether the budget is spent."""
        return self._clock() >= self.until_s

    def judge_unjudged(self, jobs: Collection[Job] | None = None) -> None:
        """Judge the complete runs of a killed night, so that they do not run again.

        With `jobs`, only the catalogue runs of these jobs; random schedules always.
        """
        known = {one.run_id for one in self._store.history()}
        taken = {one.job.key for one in self.done}
        waiting: dict[Path, Job] = {}
        for record in (path for path in records_of(self._store.runs) if path.name not in known):
            try:
                manifest = read_manifest(RecordFolder(record))
                begun = manifest.start_ns is not None and manifest.start_ns >= self._plan.started_s * 1e9
                if manifest.status != "complete" or manifest.replay_of is not None or not begun:
                    continue
                parse_version(manifest.kafka_name)
                of_record = list(self._jobs_of(manifest, load(record / SCENARIO).cluster.features))
            except UsageError:
                continue
            for job in of_record:
                if job.key not in taken and (jobs is None or job.origin == "random" or job in jobs):
                    waiting[record] = job
                    taken.add(job.key)
                    break
        self._note_verdicts(list(waiting.items()))

    def _jobs_of(self, manifest: Manifest, levels: Mapping[str, int]) -> Iterator[Job]:
        """Yield the jobs that a record may belong to.

        `levels`: the feature levels that the run was formatted with, including those that its scenario fixes.
        """
        runtime = msgspec.convert(self._plan.settings.get("runtime", "auto"), Runtime)
        if drawn := _RANDOM.fullmatch(manifest.scenario):
            yield random_job(ReleaseTarget(kafka=manifest.kafka_name, features=dict(levels)), runtime, int(drawn[1]))
        elif (scenario := self._scenarios.get(manifest.scenario)) is not None:
            fixed = scenario.cluster.features
            target = ReleaseTarget(
                kafka=manifest.kafka_name, features={name: level for name, level in levels.items() if name not in fixed}
            )
            for number in range(1, int(self._plan.settings.get("times", "1")) + 1):
                yield Job(scenario=manifest.scenario, target=target, runtime=runtime, number=number)

    def _note_failure(self, job: Job, error: EbbtideError, took_s: float) -> None:
        self._failed_in_a_row += 1
        self._report(f"{job.label}: failed: {error.what}")
        why = (str(error),)
        self._add(FinishedJob(night=self._plan.night, job=job, run_id=None, ended="failed", why=why, took_s=took_s))
        if self._failed_in_a_row >= GIVE_UP_AFTER:
            raise RepeatedFailures(
                f"the harness failed {GIVE_UP_AFTER} times in a row", got=error.what, next="ebbtide doctor"
            ) from error

    def _note_verdicts(self, ran: Sequence[tuple[Path, Job]]) -> None:
        """Write down how runs were judged; waits for those that are not."""
        for record, job in ran:
            verdict = self._judge(record)
            if isinstance(verdict, EbbtideError):
                done = FinishedJob(
                    night=self._plan.night, job=job, run_id=record.name, ended="failed", why=(str(verdict),)
                )
            else:
                done = judged_job(self._plan.night, job, RecordFolder(record), verdict)
            self._add(done)
            self._report(f"{job.label}: {done.word}" + (f": {done.why[0]}" if done.ended != "as-predicted" else ""))

    def _add(self, done: FinishedJob) -> None:
        mib = psutil.Process().memory_info().rss >> 20
        done = msgspec.structs.replace(done, ended_at_s=self._clock(), harness_mib=mib)
        self._store.append_job(done)
        self.done.append(done)
