"""From what was typed to runs and their verdicts: check, prepare, run, judge. Every verb that runs clusters does this.

Checking raises before anything is made. Preparing chooses a runtime for each release and fetches what is missing.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ebbtide.errors import ExitCode

if TYPE_CHECKING:
    from analysis.early_session import EarlySession
    from ebbtide.scenario.model import Scenario
    from harness.runner.display import Display
    from harness.runner.launch import Launch, Wanted
    from harness.runner.run import RunRequest
    from harness.runner.session import Session

    Drive = Callable[[Session], None]


class CheckedRuns(msgspec.Struct, frozen=True):
    """A scenario on some releases that this host can run, as far as can be seen before anything is made."""

    wanted: Wanted
    scenario: Scenario
    releases: tuple[str, ...]

    def prepare(self, display: Display) -> Launch:
        """Make the host ready for them. Raises `EbbtideError`."""
        from harness.runner.launch import prepare

        return prepare(self.wanted, self.releases, display.note)

    def requests(self, display: Display, seed: int) -> list[RunRequest]:
        """Make the host ready, and return one run for each release. Raises `EbbtideError`."""
        launch = self.prepare(display)
        return [launch.request(self.scenario, release, seed) for release in self.releases]


def check_runs(wanted: Wanted, scenario: Scenario, releases: Sequence[str]) -> CheckedRuns:
    """The runs, checked. Raises `UsageError`, or `HarnessError` for the host."""
    from harness.runner.launch import check

    check(wanted, scenario, releases)
    return CheckedRuns(wanted, scenario, tuple(releases))


def seed_or_new(seed: int | None) -> int:
    """The seed that was typed, or a new one."""
    from harness.runner.run import new_seed

    return seed if seed is not None else new_seed()


def screen_for(*, as_json: bool) -> Display:
    """Where a command's notes go while its clusters run. JSON is alone on stdout."""
    from rich.console import Console

    from harness.runner.display import PlainDisplay, display_for

    return PlainDisplay(Console(stderr=True)) if as_json else display_for(Console())


def run_and_judge(runs: CheckedRuns, *, seed: int, as_json: bool = False, drive: Drive | None = None) -> ExitCode:
    """Run release by release, then judge all records; the worst outcome is the exit code."""
    from rich.console import Console

    from analysis.early_session import EarlySession
    from harness.cli.analyze import judge_all
    from harness.runner.display import display_for

    with EarlySession() as spark:
        with display_for(Console(stderr=as_json)) as display:
            records = _run_all(runs.requests(display, seed), display, drive, spark)
            display.note("judging")
        return judge_all(records, as_json=as_json, early=spark)


def _run_all(requests: Sequence[RunRequest], display: Display, drive: Drive | None, spark: EarlySession) -> list[Path]:
    """The records; Spark starts while the last cluster is taken down."""
    from harness.runner.run import run_scenario
    from harness.runner.session import Session

    records: list[Path] = []
    with report_records_left("recorded before, and not judged", lambda: records, display.note):
        for request in requests:
            ending = spark.begin if request is requests[-1] else lambda: None
            records.append(run_scenario(request, display, drive or Session.carry_out, ending=ending))
    return records


@contextlib.contextmanager
def report_records_left(
    what: str, records: Callable[[], Sequence[Path]], tell: Callable[[str], None]
) -> Iterator[None]:
    """Name the records that a command leaves without a result when it ends early."""
    try:
        yield
    except BaseException:
        if left := records():
            tell(f"{what}: ebbtide analyze {shlex.join(map(str, left))}")
        raise
