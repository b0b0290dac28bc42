"""Runs, judges and follows up the jobs of a night.

Their output goes into the night's log.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.errors import EbbtideError, HarnessError
from harness.cli import run_flow
from harness.cli.option_values import with_levels
from harness.cli.run_flow import begin_judging, check_runs, hand_over, seed_or_new, verdict_or_raise

if TYPE_CHECKING:
    from ebbtide.judging_process import JudgingProcess
    from ebbtide.record.verdict import Verdict
    from ebbtide.scenario.model import Scenario
    from harness.nightly.job import Job, Runtime
    from harness.nightly.night import CarryOut, Judge
    from harness.nightly.random_jobs import RandomJobs
    from harness.nightly.store import FinishedJob, Followup, Store
    from harness.runner.display import Display

RUNS_LOG = "runs.log"
"""In a night's folder: what its runs said."""


def carrier(
    store: Store,
    night: str,
    runtime: Runtime,
    drawing: RandomJobs,
    at_once: int,
    judging: JudgingProcess,
    scenarios: Mapping[str, Scenario],
) -> CarryOut:
    """Return a function that runs jobs, `at_once` at a time, each in its own process; `scenarios` by their names.

    A process that hangs is killed. The next run starts however a run ends. Records are judged while others run.
    """
    from harness.runner.launch import LaunchOptions
    from harness.runner.run import RunRequest
    from harness.runner.side_by_side import run_side_by_side

    options = LaunchOptions(runs=store.runs, runtime=runtime)
    log = store.night_folder(night) / RUNS_LOG

    def request(job: Job, display: Display) -> RunRequest | EbbtideError:
        try:
            scenario = drawing.scenario_of(job) if job.origin == "random" else scenarios[job.scenario]
            as_run = with_levels(scenario, job.target.features)
            (made,) = check_runs(options, as_run, [job.target.kafka]).requests(display, seed_or_new(None))
            return made
        except EbbtideError as error:
            return error
        except Exception as error:
            return _bug("a run", error, log)

    def carry_out(jobs: Iterable[Job]) -> Generator[tuple[Job, Path | EbbtideError], None, None]:
        with _log_display(store, night) as display:
            begin_judging(judging)
            requests = ((job, request(job, display)) for job in jobs)
            with contextlib.closing(run_side_by_side(requests, at_once=at_once, log=log)) as ends:
                for job, end in ends:
                    if isinstance(end, Path):
                        hand_over(judging, end)
                    yield job, end

    return carry_out


def _bug(what: str, error: Exception, log: Path) -> HarnessError:
    """Write the traceback to the night's log, and return an error.

    The night continues.
    """
    with log.open("a") as file:
        traceback.print_exception(error, file=file)
    return HarnessError(f"{what} ended by a bug in ebbtide: {type(error).__name__}: {error}", where=str(log))


@contextlib.contextmanager
def _log_display(store: Store, night: str) -> Iterator[Display]:
    """Yield a display that writes into the night's log."""
    from ebbtide.shown_console import PlainTextConsole
    from harness.runner.display import PlainDisplay

    with (
        (store.night_folder(night) / RUNS_LOG).open("a") as file,
        PlainDisplay(PlainTextConsole(file=file, width=200)) as shown,
    ):
        yield shown


def judge_of(judging: JudgingProcess) -> Judge:
    """Return a function that waits until a record is judged. It raises `HarnessError` if none can be."""
    judge = run_flow.judge_of(judging)

    def end_of(record: Path) -> Verdict | EbbtideError:
        end = judge(record)
        if isinstance(end, EbbtideError):
            # The night's summary says why a record cannot be judged, in one line.
            return HarnessError(" ".join(end.what.split()), where=end.where, got=end.got, next=end.next)
        return end

    return end_of


def follower(
    store: Store, night: str, runtime: Runtime, at_once: int, judge: Judge
) -> Callable[[FinishedJob, float], Followup]:
    """Return a function that follows up a contradiction, `at_once` runs at a time.

    It stops at a time in seconds since the epoch. Another night continues what fails.
    """
    from ebbtide.scenario.parse import load
    from ebbtide.scenario.write import SCENARIO
    from harness.nightly.followup import follow_up
    from harness.nightly.store import Followup
    from harness.runner.launch import LaunchOptions, prepare

    log = store.night_folder(night) / RUNS_LOG

    def carry_out(done: FinishedJob, until_s: float) -> Followup:
        try:
            with _log_display(store, night) as display:
                others = load(store.runs / str(done.run_id) / SCENARIO).other_releases
                launch = prepare(
                    LaunchOptions(runs=store.runs, runtime=runtime), [done.job.target.kafka], display.note, others
                )
                return follow_up(
                    store,
                    done,
                    launch=launch,
                    judge=lambda record: verdict_or_raise(judge(record)),
                    display=display,
                    until_s=until_s,
                    jobs=at_once,
                    log=log,
                )
        except EbbtideError as error:
            failure = error.what
        except Exception as error:
            failure = _bug("this", error, log).what
        return Followup(run_id=str(done.run_id), failure=failure, settled=False)

    return carry_out
