"""What `ebbtide nightly` and `ebbtide nightly site` print with --json."""

from __future__ import annotations

import msgspec

from ebbtide.errors import ExitCode
from harness.nightly.store import FinishedJob, Followup, SkippedJob
from harness.nightly.summary import Trend
from harness.site.model import Mark


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
