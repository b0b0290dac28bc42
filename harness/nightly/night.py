"""One night: jobs one after another until they or the budget end, judged in batches, each written down at once."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import psutil

from analysis.judge.outcome.prediction import known_in
from ebbtide.errors import EbbtideError, ExitCode, HarnessError, UsageError
from ebbtide.record.manifest import Manifest, read_manifest, records_of
from ebbtide.record.verdict import EXIT_OF_OUTCOME, Verdict
from ebbtide.releases.known import parse_version
from ebbtide.scenario import catalogue
from ebbtide.scenario.parse import load
from ebbtide.scenario.write import SCENARIO
from harness.nightly.job import Job, ReleaseTarget, Runtime, random_job
from harness.nightly.store import Done, NightPlan, Store

BATCH = 16
"""Runs that are judged together: starting Spark for each would cost as much as the run."""
GIVE_UP_AFTER = 3
"""Failures of the harness or its host, one after another: the next would fail too."""
_RANDOM = re.compile(r"random-(\d+)")

CarryOut = Callable[[Iterable[Job]], Generator[tuple[Job, Path | EbbtideError], None, None]]
"""Runs jobs, and says of each, as it ends, where its record is or why there is none; asks for the next in time."""
Judge = Callable[[Sequence[Path]], dict[Path, Verdict | EbbtideError]]
"""Judges records; an error stands for one that cannot be read. Raises `EbbtideError` where judging cannot start."""


class GaveUp(HarnessError):
    """The harness failed several times in a row; what was run until then is judged."""


def exit_code(dones: Sequence[Done]) -> ExitCode:
    """That of the worst run, of those that somebody has to look at; a night without runs proved nothing."""
    if not dones:
        return ExitCode.INCONCLUSIVE
    ends = [one.ended for one in dones if not one.expected]
    codes = [ExitCode.HARNESS_FAILED if one == "failed" else EXIT_OF_OUTCOME[one] for one in ends]
    return ExitCode.worst([ExitCode.AS_PREDICTED, *codes])


class Night:
    """Carries a plan out."""

    def __init__(
        self,
        store: Store,
        plan: NightPlan,
        *,
        carry_out: CarryOut,
        judge: Judge,
        budget_s: float,
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._plan = plan
        self._carry_out = carry_out
        self._judge = judge
        self._tell = tell
        self._clock = clock
        self.until_s = plan.started_s + budget_s
        self._failed_in_a_row = 0
        self.done = [one for one in store.history() if one.night == plan.night]

    def run(
        self, jobs: Iterable[Job], *, until_s: float | None = None, after_batch: Callable[[], None] = lambda: None
    ) -> list[Done]:
        """Run the jobs that this night has not done yet, while there is time; what was done.

        `until_s`: seconds since the epoch, before the end of the budget. `after_batch` is called when a full one has
        been judged. Raises `GaveUp` when the harness failed several times in a row, and `EbbtideError` when what was
        run cannot be judged: another start of the night does that, by `adopt`.
        """
        end_s = self.until_s if until_s is None else min(until_s, self.until_s)
        before = len(self.done)
        done = {one.job.key for one in self.done}
        started_s: dict[str, float] = {}

        def in_time() -> Iterator[Job]:
            for job in jobs:
                if self._clock() >= end_s:
                    return
                if job.key not in done:
                    self._tell(job.key)
                    started_s[job.key] = self._clock()
                    yield job

        ran: list[tuple[Path, Job]] = []
        try:
            with contextlib.closing(self._carry_out(in_time())) as ends:
                for job, end in ends:
                    if isinstance(end, EbbtideError):
                        self._note_failure(job, end, self._clock() - started_s[job.key])
                        continue
                    self._failed_in_a_row = 0
                    ran.append((end, job))
                    if len(ran) == BATCH:
                        self._judge_batch(ran)
                        ran.clear()
                        after_batch()
        except GaveUp:
            self._judge_batch(ran)
            raise
        self._judge_batch(ran)
        return self.done[before:]

    @property
    def over(self) -> bool:
        """Whether the budget is spent."""
        return self._clock() >= self.until_s

    def adopt(self, jobs: Collection[Job] | None = None) -> None:
        """Judge what a killed night had run and not judged: it is not run again.

        Of the catalogue only what is of `jobs`, where they are given; and whatever was drawn by chance.
        """
        known = {one.run_id for one in self._store.history()}
        taken = {one.job.key for one in self.done}
        waiting: dict[Path, Job] = {}
        for record in (path for path in records_of(self._store.runs) if path.name not in known):
            try:
                manifest = read_manifest(record)
                begun = manifest.start_ns is not None and manifest.start_ns >= self._plan.started_s * 1e9
                if manifest.status != "complete" or manifest.replay_of is not None or not begun:
                    continue
                parse_version(manifest.kafka)
                of_record = list(self._jobs_of(manifest, load(record / SCENARIO).cluster.features))
            except UsageError:
                continue
            for job in of_record:
                if job.key not in taken and (jobs is None or job.origin == "random" or job in jobs):
                    waiting[record] = job
                    taken.add(job.key)
                    break
        self._judge_batch(list(waiting.items()))

    def _jobs_of(self, manifest: Manifest, levels: Mapping[str, int]) -> Iterator[Job]:
        """The jobs that a run may have been of; `levels` as formatted, those that its scenario fixes among them."""
        runtime = msgspec.convert(self._plan.settings.get("runtime", "auto"), Runtime)
        if drawn := _RANDOM.fullmatch(manifest.scenario):
            yield random_job(ReleaseTarget(kafka=manifest.kafka, features=dict(levels)), runtime, int(drawn[1]))
        elif manifest.scenario in catalogue.names():
            fixed = catalogue.find(manifest.scenario).cluster.features
            target = ReleaseTarget(
                kafka=manifest.kafka, features={name: level for name, level in levels.items() if name not in fixed}
            )
            for number in range(1, int(self._plan.settings.get("times", "1")) + 1):
                yield Job(scenario=manifest.scenario, target=target, runtime=runtime, number=number)

    def _note_failure(self, job: Job, error: EbbtideError, took_s: float) -> None:
        self._failed_in_a_row += 1
        self._tell(f"{job.key}: failed: {error.what}")
        why = (str(error),)
        self._add(Done(night=self._plan.night, job=job, run_id=None, ended="failed", why=why, took_s=took_s))
        if self._failed_in_a_row >= GIVE_UP_AFTER:
            raise GaveUp(
                f"the harness failed {GIVE_UP_AFTER} times in a row", got=error.what, next="ebbtide doctor"
            ) from error

    def _judge_batch(self, ran: Sequence[tuple[Path, Job]]) -> None:
        if not ran:
            return
        verdicts = self._judge([record for record, _ in ran])
        for record, job in ran:
            verdict = verdicts[record]
            if isinstance(verdict, EbbtideError):
                done = Done(night=self._plan.night, job=job, run_id=record.name, ended="failed", why=(str(verdict),))
            else:
                done = self._done(record, job, verdict)
            self._add(done)
            self._tell(f"{job.key}: {done.ended}" + (f": {done.why[0]}" if done.ended != "as-predicted" else ""))

    def _done(self, record: Path, job: Job, verdict: Verdict) -> Done:
        manifest = read_manifest(record)
        causes: dict[str, int] = {}
        for loss in verdict.losses:
            causes[loss.cause] = causes.get(loss.cause, 0) + loss.count
        took_ns = (manifest.end_ns or 0) - (manifest.start_ns or 0)
        return Done(
            night=self._plan.night,
            job=job,
            run_id=record.name,
            ended=verdict.outcome,
            why=tuple(verdict.why),
            causes=causes,
            coverage=verdict.coverage,
            known_bug=known_in(verdict.why),
            seed=manifest.seed,
            took_s=max(0, took_ns) / 1e9,
        )

    def _add(self, done: Done) -> None:
        mib = psutil.Process().memory_info().rss >> 20
        done = msgspec.structs.replace(done, ended_at_s=self._clock(), harness_mib=mib)
        self._store.append(done)
        self.done.append(done)
