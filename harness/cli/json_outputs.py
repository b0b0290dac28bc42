"""What some verbs print with --json; docs/schemas/ has the JSON Schemas of all."""

from __future__ import annotations

import msgspec

from ebbtide.errors import ExitCode
from ebbtide.record.verdict import Verdict
from harness.nightly.store import FinishedJob, Followup, SkippedJob
from harness.nightly.summary import Trend
from harness.replay.compare import Departure
from harness.replay.finding import RunFinding
from harness.replay.replaying import ReplaySummary
from harness.shrink.file import KeptStep
from harness.site.model import Mark


class ReplayRow(msgspec.Struct, frozen=True, kw_only=True):
    """One replay. Without a record, `failure` says why it did not run or could not be judged.

    The shares and departures are those of `ebbtide replay` (docs/replay.md).
    """

    kafka: str
    failure: str | None = None
    record: str | None = None
    run_id: str | None = None
    ignored_properties: tuple[str, ...] = ()
    fidelity: float | None = None
    finding: RunFinding | None = None
    states: float | None = None
    effects: float | None = None
    verdict: float | None = None
    same: bool | None = None
    naming: dict[int, int] = {}
    departures: tuple[Departure, ...] = ()


class ReplayOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A record, its replays, and the summary of each release."""

    record: str
    run_id: str
    kafka: str
    finding: RunFinding | None
    replays: tuple[ReplayRow, ...]
    releases: tuple[ReplaySummary, ...]


class ShrinkOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The file that a shrink wrote: the facts that it shows, in `shown` of `times` runs.

    `not_kept` are facts of the record that it need not show. `kept` are the steps of the record that are left. `took_s`
    is the sum of the `runs`, also of those of earlier calls; `elapsed_s` is how long the search of this call took.
    """

    file: str
    facts: tuple[str, ...]
    not_kept: tuple[str, ...]
    steps_before: int
    steps: int
    kept: tuple[KeptStep, ...]
    brokers: int
    shown: int
    times: int
    finished: bool
    gave_way: bool
    runs: int
    took_s: float
    elapsed_s: float


class RandomOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A drawn scenario as TOML, the file that has it, and with --run the verdict."""

    seed: int
    kafka: str
    steps: int
    file: str | None
    scenario: str
    verdict: Verdict | None


class NightOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A night: its runs, what did not run, the follow-ups, and what changed since the last conclusive night.

    `exit_code` is that of this night alone, under --fail-on. `summary`, `junit` and `site` are files.
    """

    night: str
    runs: tuple[FinishedJob, ...]
    skipped: tuple[SkippedJob, ...]
    followups: tuple[Followup, ...]
    changes: Trend
    exit_code: ExitCode
    summary: str
    junit: str
    site: str


class SiteCell(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario on a release and runtime: the mark of its last run, and what changed in the last night."""

    scenario: str
    target: str
    last: Mark
    runs: int
    change: str | None
    page: str


class SiteOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A static site: its first page, the nights that it draws, its cells, and how many random runs it lists."""

    page: str
    nights: tuple[str, ...]
    cells: tuple[SiteCell, ...]
    random_runs: int
