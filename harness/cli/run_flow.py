"""Checks, prepares, runs and judges: the order of every verb that runs clusters.

Checking raises before anything is made. Preparing chooses a runtime for each release, and fetches what is missing.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ebbtide.errors import EbbtideError, ExitCode, HarnessError, UsageError
from ebbtide.record.files import RecordFolder

if TYPE_CHECKING:
    from ebbtide.judging_process import JudgingProcess
    from ebbtide.record.outcomes import FailOn
    from ebbtide.record.verdict import Verdict
    from ebbtide.scenario.model import Scenario
    from harness.runner.display import Display
    from harness.runner.launch import Launch, LaunchOptions
    from harness.runner.run import RunRequest
    from harness.runner.session import Session

    Drive = Callable[[Session], None]


class CheckedRuns(msgspec.Struct, frozen=True):
    """A scenario and releases that this host can run, as far as a check can see; `word` is what the user typed.

    `publish`: the first port on the host for the brokers of the only run, and whether clients connect with TLS.
    """

    options: LaunchOptions
    scenario: Scenario
    releases: tuple[str, ...]
    word: str | None = None
    publish: tuple[int, bool] | None = None

    def prepare(self, display: Display) -> Launch:
        """Choose runtimes, and fetch what is missing. Raises `EbbtideError`."""
        from harness.runner.launch import prepare

        note_rules((*self.releases, *self.scenario.other_releases), display.note)
        return prepare(self.options, self.releases, display.note, self.scenario.other_releases)

    def requests(self, display: Display, seed: int) -> list[RunRequest]:
        """Prepare the host, and return one run for each release. Raises `EbbtideError`.

        A release for which the scenario predicts nothing is noted before the run, not only in its verdict.
        """
        from cluster.host.host_ports import HostPorts
        from ebbtide.record.predictions import predicts

        for release in self.releases:
            if self.scenario.topics and not predicts(self.scenario, release):
                display.note(
                    f"{self.scenario.name} predicts nothing for Kafka {release}: the run is judged by the protocol, "
                    "and cannot end as predicted; a [[predictions]] entry for that release would change that"
                )
        launch = self.prepare(display)
        requests = [launch.request(self.scenario, release, seed) for release in self.releases]
        if self.publish is None:
            return requests
        (first, has_tls), (request,) = self.publish, requests
        brokers = range(1, self.scenario.cluster.brokers + 1)
        ports = HostPorts(first, brokers, records=bool(self.scenario.topics), tls=has_tls)
        display.note(f"clients on this host reach the brokers at {', '.join(ports.addresses)}")
        return [msgspec.structs.replace(request, host_ports=ports)]


def check_runs(
    options: LaunchOptions,
    scenario: Scenario,
    releases: Sequence[str],
    word: str | None = None,
    publish: tuple[int, bool] | None = None,
) -> CheckedRuns:
    """Check the runs before any of them starts.

    Raises `UsageError`, or `HarnessError` if the host cannot run them.
    """
    from harness.runner.launch import check

    check(options, scenario, releases)
    return CheckedRuns(options, scenario, tuple(releases), word, publish)


def note_rules(releases: Iterable[str], note: Callable[[str], None]) -> None:
    """Note by which rules runs on a release are judged, where these are not its own."""
    from analysis.record.protocol import judged_by

    for release in releases:
        if (rules := judged_by(release)) is not None and (words := rules.in_words(release)):
            note(f"judged by {words}")


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
    runs: Sequence[CheckedRuns],
    *,
    seed: int,
    as_json: bool = False,
    show: Callable[[Verdict], object] | None = None,
    drive: Drive | None = None,
    jobs: int = 1,
    judges: bool = True,
    fail_on: FailOn = "outcome",
) -> ExitCode:
    """Run scenario by scenario and release by release, judge all records, and return the worst outcome.

    A run that fails does not end the others; a single one raises its error.
    `show` is called with each verdict, instead of printing it as JSON. With several `jobs` so many runs go on at
    once, and there is no `drive`. Without `judges` the records stay as they are, which is inconclusive. `fail_on` may
    let a lost record fail the command.
    """
    from analysis.spark.java_start import is_first_session
    from ebbtide.judging_process import JudgingProcess
    from ebbtide.record.verdict import unfinished_verdict
    from ebbtide.shown_console import PlainTextConsole
    from harness.cli.output import print_json
    from harness.cli.progress import judging_note, print_saving
    from harness.cli.rule_files import judging_options
    from harness.cli.runs_compare import print_comparison
    from harness.runner.live_view import display_for

    with JudgingProcess(options=judging_options()) as judge:
        with display_for(PlainTextConsole(stderr=as_json)) as display:
            requests = [request for one in runs for request in one.requests(display, seed)]
            if judges:
                begin_judging(judge)
            ends = _run_all(requests, display, drive, jobs, judge if judges else None)
            records = [end for end in ends if isinstance(end, Path)]
            if records:
                display.note(judging_note() if judges else f"not judged; next: {_analyze(records)}")
        words = [one.word for one in runs for _ in one.releases]
        failures = [_located(end, word) for end, word in zip(ends, words, strict=True) if not isinstance(end, Path)]
        if len(requests) == 1 and failures:
            raise failures[0]
        if not judges:
            if as_json:
                for record in records:
                    print_json(unfinished_verdict(record.name))
            return _print_failures(failures, ExitCode.INCONCLUSIVE)
        many = len(runs) > 1
        code = (
            _print_verdicts(records, judge, as_json=as_json, show=show, in_lines=many, fail_on=fail_on)
            if records
            else None
        )
        if many and not as_json:
            _print_run_table(requests, ends)
        elif len(records) > 1 and not as_json:
            print_comparison(records)
        code = _print_failures(failures, code)
        if judge.is_running() and is_first_session():
            print_saving()
        return code


def _print_verdicts(
    records: Sequence[Path],
    judge: JudgingProcess,
    *,
    as_json: bool,
    show: Callable[[Verdict], object] | None,
    in_lines: bool,
    fail_on: FailOn,
) -> ExitCode:
    """Print each verdict when there is one, or all as a table unless `in_lines`; return the worst exit code."""
    from ebbtide.record.outcomes import exit_code_of
    from ebbtide.record.verdict import read_judgement
    from harness.cli.crash import print_error, print_failure
    from harness.cli.verdict_output import VerdictOutput

    output = VerdictOutput(len(records), as_json=as_json, show=show, in_lines=in_lines, fail_on=fail_on)
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
            if answer.failure is None:
                verdict = read_judgement(RecordFolder(record))
                codes.add(exit_code_of(verdict, fail_on))
                output.add(RecordFolder(record), verdict)
            else:
                codes.add(ExitCode(answer.exit_code))
                print_failure(str(record), answer.failure)
    judge.finish()
    output.end()
    return ExitCode.worst(codes)


def _print_failures(failures: Sequence[EbbtideError], code: ExitCode | None) -> ExitCode:
    """Print the errors of runs that failed; return the worst exit code, also of the other runs."""
    for error in failures:
        print(f"error: {error.render()}", file=sys.stderr)
    return ExitCode.worst([*(error.exit_code for error in failures), *([] if code is None else [code])])


def _located(error: EbbtideError, word: str | None) -> EbbtideError:
    """Return the error of a run, with the place in its file if Kafka refused one of its settings."""
    from ebbtide.scenario import catalogue

    try:
        with catalogue.located_refusals(word, "ebbtide run"):
            raise error
    except EbbtideError as located:
        return located


def _run_all(
    requests: Sequence[RunRequest], display: Display, drive: Drive | None, jobs: int, judge: JudgingProcess | None
) -> list[Path | EbbtideError]:
    """Run `jobs` at once, and return the record or the failure of each request. Each is judged while others run.

    The output of runs at once goes to a file among the records, and is shown. A run that fails does not end the others.
    """
    from harness.runner.run import run_scenario
    from harness.runner.session import Session
    from harness.runner.side_by_side import run_in_turn, run_side_by_side

    several = len({one.scenario.name for one in requests}) > 1
    names = [f"{one.scenario.name} on Kafka {one.kafka}" if several else f"Kafka {one.kafka}" for one in requests]
    ends: dict[int, Path | EbbtideError] = {}

    def recorded() -> list[Path]:
        return [end for _, end in sorted(ends.items()) if isinstance(end, Path)]

    def show(at: int, text: str) -> None:
        display.note(f"{names[at]}: {text}")

    if jobs > 1 and len(requests) > 1:
        log = _begin_log(requests, names)
        what = "runs" if several else "releases"
        display.note(f"running {min(jobs, len(requests))} {what} at once; their output goes to {log}")
        going = run_side_by_side(enumerate(requests), at_once=jobs, log=log, on_note=show)
    else:
        going = run_in_turn(
            enumerate(requests), display, lambda one, its: run_scenario(one, its, drive or Session.carry_out)
        )
    with (
        report_unfinished_records("recorded, but not judged; next", recorded, display.note),
        contextlib.closing(going) as each,
    ):
        for at, end in each:
            ends[at] = end
            if isinstance(end, Path):
                hand_over(judge, end)
            else:
                show(at, f"failed: {end.what}")
    return [ends[at] for at in range(len(requests))]


def _begin_log(requests: Sequence[RunRequest], names: Sequence[str]) -> Path:
    """Write the names of this command's runs to the log of runs at once, and return the log. Raises `HarnessError`."""
    runs = requests[0].runs
    log = runs / f"runs-of-{requests[0].scenario.name}.log"
    try:
        runs.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC: {', '.join(names)}\n")
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


def judge_of(judging: JudgingProcess) -> Callable[[Path], Verdict | EbbtideError]:
    """Return a function that waits until a record is judged. It raises `HarnessError` if none can be."""
    from ebbtide.record.verdict import read_judgement

    def end_of(record: Path) -> Verdict | EbbtideError:
        judging.begin()
        try:
            answer = judging.judge(record)
        except HarnessError as error:
            return error
        if not answer.can_judge:
            raise HarnessError(answer.failure or "no run can be judged")
        if answer.failure is None:
            return read_judgement(RecordFolder(record))
        return (UsageError if answer.exit_code == ExitCode.USAGE else HarnessError)(answer.failure)

    return end_of


def verdict_or_raise(end: Verdict | EbbtideError) -> Verdict:
    """Return the verdict. Raises the error that a record has instead."""
    if isinstance(end, EbbtideError):
        raise end
    return end


def _analyze(records: Sequence[Path]) -> str:
    """Return the command that judges some records."""
    from harness.cli.rule_files import judging_options

    return f"ebbtide analyze {shlex.join([*map(str, records), *judging_options()])}"


def _print_run_table(requests: Sequence[RunRequest], ends: Sequence[Path | EbbtideError]) -> None:
    """Print a row for each run: its outcome, its counts, and its record or that it failed."""
    from harness.cli.output import print_table

    print()
    headers = ("scenario", "kafka", "outcome", "acked", "lost", "record")
    rows = [(one.scenario.name, one.kafka, *_run_cells(end)) for one, end in zip(requests, ends, strict=True)]
    print_table(headers, rows)


def _run_cells(end: Path | EbbtideError) -> tuple[str, str, str, str]:
    from ebbtide.record.outcomes import outcome_word
    from ebbtide.record.verdict import read_verdict, unfinished_verdict
    from ebbtide.shown_text import shown_path
    from harness.cli.runs import judged_counts, shown_count

    if isinstance(end, EbbtideError):
        return "failed", "-", "-", "-"
    record = RecordFolder(end)
    verdict = read_verdict(record)
    if verdict is None or verdict == unfinished_verdict(verdict.run_id):
        return "not judged", "-", "-", shown_path(end)
    acked, lost = judged_counts(record, verdict)
    return outcome_word(verdict), shown_count(acked), shown_count(lost), shown_path(end)
