"""Checks, prepares, runs and judges: the order of every verb that runs clusters.

Checking raises before anything is made. Preparing chooses a runtime for each release, and fetches what is missing.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ebbtide.errors import EbbtideError, ExitCode, HarnessError

if TYPE_CHECKING:
    from ebbtide.judging_process import JudgingProcess
    from ebbtide.record.verdict import Verdict
    from ebbtide.scenario.model import Scenario
    from harness.runner.display import Display
    from harness.runner.launch import Launch, LaunchOptions
    from harness.runner.run import RunRequest
    from harness.runner.session import Session

    Drive = Callable[[Session], None]


class CheckedRuns(msgspec.Struct, frozen=True):
    """A scenario and releases that this host can run, as far as a check can see."""

    options: LaunchOptions
    scenario: Scenario
    releases: tuple[str, ...]

    def prepare(self, display: Display) -> Launch:
        """Choose runtimes, and fetch what is missing. Raises `EbbtideError`."""
        from harness.runner.launch import prepare

        return prepare(self.options, self.releases, display.note, self.scenario.other_releases)

    def requests(self, display: Display, seed: int) -> list[RunRequest]:
        """Prepare the host, and return one run for each release. Raises `EbbtideError`.

        A release for which the scenario predicts nothing is noted before the run, not only in its verdict.
        """
        from ebbtide.record.predictions import predicts

        for release in self.releases:
            if self.scenario.topics and not predicts(self.scenario, release):
                display.note(
                    f"{self.scenario.name} predicts nothing for Kafka {release}: the run is judged by the protocol, "
                    "and cannot end as predicted; a [[predictions]] entry for that release would change that"
                )
        launch = self.prepare(display)
        return [launch.request(self.scenario, release, seed) for release in self.releases]


def check_runs(options: LaunchOptions, scenario: Scenario, releases: Sequence[str]) -> CheckedRuns:
    """Check the runs before any of them starts.

    Raises `UsageError`, or `HarnessError` if the host cannot run them.
    """
    from harness.runner.launch import check

    check(options, scenario, releases)
    return CheckedRuns(options, scenario, tuple(releases))


def seed_or_new(seed: int | None) -> int:
    """Return the typed seed, or a new one."""
    from harness.runner.run import new_seed

    return seed if seed is not None else new_seed()


def progress_display(*, as_json: bool) -> Display:
    """Return the display of a command's progress; with JSON it writes to stderr."""
    from ebbtide.shown_console import PlainTextConsole
    from harness.runner.display import PlainDisplay
    from harness.runner.live_view import display_for

    return PlainDisplay(PlainTextConsole(stderr=True)) if as_json else display_for(PlainTextConsole())


def run_and_judge(
    runs: CheckedRuns,
    *,
    seed: int,
    as_json: bool = False,
    show: Callable[[Verdict], object] | None = None,
    drive: Drive | None = None,
    jobs: int = 1,
    judges: bool = True,
) -> ExitCode:
    """Run release by release, judge all records, and return the worst outcome.

    `show` is called with each verdict, instead of printing it as JSON. With several `jobs` so many releases run at
    once, and there is no `drive`. Without `judges` the records stay as they are, which is inconclusive.
    """
    from analysis.spark.java_start import is_first_session
    from ebbtide.judging_process import JudgingProcess
    from ebbtide.record.verdict import unfinished_verdict
    from ebbtide.shown_console import PlainTextConsole
    from harness.cli.compare import print_comparison
    from harness.cli.output import print_json
    from harness.cli.progress import judging_note, print_saving
    from harness.runner.live_view import display_for

    with JudgingProcess() as judge:
        with display_for(PlainTextConsole(stderr=as_json)) as display:
            requests = runs.requests(display, seed)
            if judges:
                begin_judging(judge)
            if jobs > 1 and len(requests) > 1:
                records = _run_at_once(requests, display, jobs, judge if judges else None)
            else:
                records = _run_all(requests, display, drive, judge if judges else None)
            display.note(judging_note() if judges else f"not judged; next: {_analyze(records)}")
        if not judges:
            if as_json:
                for record in records:
                    print_json(unfinished_verdict(record.name))
            return ExitCode.INCONCLUSIVE
        code = _print_verdicts(records, judge, as_json=as_json, show=show)
        if len(records) > 1 and not as_json:
            print_comparison(records)
        if judge.is_running() and is_first_session():
            print_saving()
        return code


def _print_verdicts(
    records: Sequence[Path], judge: JudgingProcess, *, as_json: bool, show: Callable[[Verdict], object] | None
) -> ExitCode:
    """Print each verdict when there is one, or all as a table; return the worst exit code."""
    from ebbtide.record.verdict import read_judgement
    from harness.cli.record_error import print_error, print_failure
    from harness.cli.verdict_output import VerdictOutput

    output = VerdictOutput(len(records), as_json=as_json, show=show)
    codes: set[ExitCode] = set()
    with report_unfinished_records(
        "recorded, but not all judged; next", lambda: records, lambda line: print(line, file=sys.stderr)
    ):
        for record in records:
            try:
                answer = judge.judge(record)
            except HarnessError as error:
                codes.add(print_error(str(record), error))
                continue
            codes.add(ExitCode(answer.exit_code))
            if answer.failure is None:
                output.add(record, read_judgement(record))
            else:
                print_failure(str(record), answer.failure)
    judge.finish()
    output.end()
    return ExitCode.worst(codes)


def _run_all(
    requests: Sequence[RunRequest], display: Display, drive: Drive | None, judge: JudgingProcess | None
) -> list[Path]:
    """Run release by release, and return the records.

    Each is judged while the next one runs.
    """
    from harness.runner.run import run_scenario
    from harness.runner.session import Session

    records: list[Path] = []
    with report_unfinished_records("recorded, but not judged; next", lambda: records, display.note):
        for request in requests:
            records.append(run_scenario(request, display, drive or Session.carry_out))
            hand_over(judge, records[-1])
    return records


def _run_at_once(
    requests: Sequence[RunRequest], display: Display, jobs: int, judge: JudgingProcess | None
) -> list[Path]:
    """Run `jobs` releases at once, each in a process of its own, and return the records in the order of `requests`.

    Their output goes to a file among the records, and is shown. A release that fails does not end the others; its error
    is raised when all have ended.
    """
    from harness.runner.side_by_side import run_side_by_side

    log = _begin_log(requests)
    display.note(f"running {min(jobs, len(requests))} releases at once; their output goes to {log}")
    records: dict[int, Path] = {}
    failures: list[EbbtideError] = []

    def recorded() -> list[Path]:
        return [records[at] for at in sorted(records)]

    def show(at: int, text: str) -> None:
        display.note(f"Kafka {requests[at].kafka}: {text}")

    with (
        report_unfinished_records("recorded, but not judged; next", recorded, display.note),
        contextlib.closing(run_side_by_side(enumerate(requests), at_once=jobs, log=log, on_note=show)) as ends,
    ):
        for at, end in ends:
            if isinstance(end, Path):
                records[at] = end
                hand_over(judge, end)
            else:
                failures.append(end)
                show(at, f"failed: {end.what}")
        if failures:
            raise failures[0]
    return recorded()


def _begin_log(requests: Sequence[RunRequest]) -> Path:
    """Write the releases of this command to the log of runs at once, and return the log. Raises `HarnessError`."""
    runs = requests[0].runs
    log = runs / f"runs-of-{requests[0].scenario.name}.log"
    try:
        runs.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC: {', '.join(one.kafka for one in requests)}\n")
    except OSError as error:
        raise HarnessError(
            "the log of runs at once cannot be written",
            where=str(error.filename or log),
            got=error.strerror or str(error),
            allowed="a file that you can write to",
            next="name another folder for records with --runs",
        ) from None
    return log


@contextlib.contextmanager
def report_unfinished_records(
    what: str, records: Callable[[], Sequence[Path]], report: Callable[[str], None]
) -> Iterator[None]:
    """If the command ends early, print which records it leaves without a result."""
    try:
        yield
    except BaseException:
        if left := records():
            report(f"{what}: {_analyze(left)}")
        raise


def begin_judging(judge: JudgingProcess) -> None:
    """Let the judging process start while the first cluster runs.

    What is wrong with it ends no run: it is reported when a record is judged.
    """
    with contextlib.suppress(HarnessError):
        judge.begin()


def hand_over(judge: JudgingProcess | None, record: Path) -> None:
    """Let a record be judged meanwhile, if that is possible."""
    if judge is not None:
        with contextlib.suppress(HarnessError):
            judge.hand_over(record)


def _analyze(records: Sequence[Path]) -> str:
    """Return the command that judges some records."""
    return f"ebbtide analyze {shlex.join(map(str, records))}"
