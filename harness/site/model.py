"""Arranges the history of stores for the site: nights, a matrix of cells, and the runs of each cell."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import msgspec
from jinja2 import Environment

from analysis.report.html import REPORT
from analysis.report.pages import page_templates
from ebbtide.errors import UsageError
from ebbtide.record.files import is_run_id, write_atomically
from harness.nightly.job import group_label
from harness.nightly.store import FinishedJob, Followup, Store
from harness.nightly.summary import Trend, trend

NIGHTS_SHOWN = 14
"""How many of the last nights the overview draws."""

Mark = Literal["ok", "loss", "known-bug", "contradicted", "inconclusive", "failed"]
MARKS: dict[Mark, tuple[str, str]] = {
    "contradicted": ("✗", "contradicted: the protocol or the prediction was broken"),
    "failed": ("!", "failed: the harness or its host failed"),
    "inconclusive": ("?", "inconclusive: evidence is missing"),
    "known-bug": ("k", "contradicted by a known bug, as expected"),
    "loss": ("▾", "as predicted or without a prediction, and committed or uncommitted records were lost"),
    "ok": ("✓", "as predicted or without a prediction, and nothing was lost"),
}
"""Each mark with its sign and its meaning, the gravest first. A sign tells it without colour."""


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a cell. `report` is the file of its report; None: its record is gone."""

    night: str
    label: str
    mark: Mark
    word: str
    why: tuple[str, ...]
    lost: str
    took_s: float
    run_id: str | None
    report: Path | None
    followup: str | None
    known_bug: str | None = None


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """All runs of one scenario on one release and runtime, oldest first.

    `nights` has the gravest mark of each night that is drawn, or None. `change` is new, gone or
    flaky in the last night.
    """

    scenario: str
    target: str
    page: str
    runs: tuple[RunRow, ...]
    nights: tuple[Mark | None, ...]
    change: str | None

    @property
    def last(self) -> RunRow:
        """The newest run."""
        return self.runs[-1]


class NightColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One night of the trend: how many of its runs have each mark."""

    night: str
    counts: dict[Mark, int]

    @property
    def said(self) -> str:
        """When the night began."""
        return night_text(self.night)

    @property
    def total(self) -> int:
        """How many runs the night had."""
        return sum(self.counts.values())


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What the site shows. `cells` is keyed by scenario and target; `drawn` are the random runs.

    `replayed` counts the replays that ended as the contradiction did, and all replays.
    """

    nights: tuple[NightColumn, ...]
    scenarios: tuple[str, ...]
    targets: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]
    drawn: tuple[RunRow, ...]
    changes: Trend
    replayed: tuple[int, int]

    @property
    def tone(self) -> str:
        """How the last night looks: bad with news, open where runs are inconclusive or failed, else good."""
        if self.changes.new:
            return "bad"
        last = self.nights[-1].counts if self.nights else {}
        return "open" if not last or {"failed", "inconclusive"} & set(last) else "good"


def site_of(stores: Sequence[Store]) -> Site:
    """Arrange the histories of the stores, which may be shards of one night or several machines.

    A run that several stores have counts once. Raises `UsageError` for a damaged history.
    """
    history, reports, followups = _merge(stores)
    nights = sorted({done.night for done in history})
    drawn_nights = nights[-NIGHTS_SHOWN:]
    changes = trend(history, nights[-1]) if nights else Trend(new=(), gone=(), flaky=())
    rows: dict[tuple[str, str], list[RunRow]] = defaultdict(list)
    drawn: list[RunRow] = []
    for done in history:
        row = _row(done, reports, followups)
        if done.job.origin == "catalogue":
            rows[done.job.scenario, f"{done.job.target} ({done.job.runtime})"].append(row)
        else:
            drawn.append(row)
    cells = {key: _cell(*key, found, drawn_nights, changes) for key, found in rows.items()}
    return Site(
        nights=tuple(_night(night, history) for night in drawn_nights),
        scenarios=tuple(sorted({scenario for scenario, _ in cells})),
        targets=tuple(sorted({target for _, target in cells}, key=_by_numbers)),
        cells=cells,
        drawn=tuple(drawn),
        changes=Trend(
            **{name: tuple(map(group_label, groups)) for name, groups in msgspec.structs.asdict(changes).items()}
        ),
        replayed=(sum(one.same for one in followups.values()), sum(one.times for one in followups.values())),
    )


def _merge(stores: Sequence[Store]) -> tuple[list[FinishedJob], dict[str, Path], dict[str, Followup]]:
    """Return the runs of all stores by time, their reports, and the follow-ups, by run id."""
    jobs: dict[tuple[str, str, str | None], FinishedJob] = {}
    reports: dict[str, Path] = {}
    followups: dict[str, Followup] = {}
    for store in stores:
        for done in store.history():
            jobs.setdefault((done.night, done.job.key, done.run_id), done)
            if done.run_id is not None and is_run_id(done.run_id):
                report = store.runs / done.run_id / REPORT
                if report.is_file():
                    reports.setdefault(done.run_id, report)
        followups |= {one.run_id: one for one in store.all_followups()}
    return sorted(jobs.values(), key=lambda done: (done.night, done.ended_at_s)), reports, followups


def mark_of(done: FinishedJob) -> Mark:
    """Return the mark of a run: the loss decides the colour, the sign says how the run ended."""
    if done.known_bug is not None:
        return "known-bug"
    if done.ended == "as-predicted":
        return "loss" if any(done.causes.values()) else "ok"
    return done.ended


def _row(done: FinishedJob, reports: Mapping[str, Path], followups: Mapping[str, Followup]) -> RunRow:
    followup = followups.get(str(done.run_id))
    return RunRow(
        night=done.night,
        label=done.job.label,
        mark=mark_of(done),
        word="known bug" if done.known_bug is not None else done.word.replace("-", " "),
        why=done.why,
        lost=", ".join(f"{count:,} {cause}" for cause, count in sorted(done.causes.items()) if count) or "none",
        took_s=done.took_s,
        run_id=done.run_id,
        report=reports.get(str(done.run_id)),
        followup=followup.describe() if followup is not None else None,
        known_bug=done.known_bug,
    )


def gravest(marks: Iterable[Mark]) -> Mark | None:
    """Return the gravest of some marks; None if there are none."""
    found = set(marks)
    return next((mark for mark in MARKS if mark in found), None)


def _cell(scenario: str, target: str, runs: list[RunRow], nights: Sequence[str], changes: Trend) -> Cell:
    kafka, _, runtime = target.rpartition(" ")
    group = f"{scenario} on {kafka} {runtime}"
    groups = {"new": changes.new, "gone": changes.gone, "flaky": changes.flaky}
    return Cell(
        scenario=scenario,
        target=target,
        page=page_name(group),
        runs=tuple(runs),
        nights=tuple(gravest(run.mark for run in runs if run.night == night) for night in nights),
        change=next((name for name, members in groups.items() if group in members), None),
    )


def _night(night: str, history: Sequence[FinishedJob]) -> NightColumn:
    counts = Counter(mark_of(done) for done in history if done.night == night)
    return NightColumn(night=night, counts={mark: counts[mark] for mark in MARKS if counts[mark]})


def night_text(night: str) -> str:
    """Return when a night began as a person says it: `19 November 2026, 02:00`."""
    try:
        began = datetime.strptime(night[:13], "%Y%m%dT%H%M")
    except ValueError:
        return night
    return f"{began.day} {began:%B %Y, %H:%M}"


def page_name(group: str) -> str:
    """Return a file name for a group of runs: readable, the same in every site, and unique."""
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", group).strip("-.")[:80]
    return f"{readable}-{blake2b(group.encode(), digest_size=3).hexdigest()}.html"


def _by_numbers(text: str) -> tuple[list[int], str]:
    """Sort releases by their numbers: 3.10.0 after 3.9.1."""
    return [int(number) for number in re.findall(r"\d+", text)], text


INDEX = "index.html"
CELLS = "cells"
RANDOM = "random.html"
"""The page of all random runs, in the folder of the cells' pages."""
REPORTS = "reports"
_DRAWN_SHOWN = 50
_BAR_PX = 120


def write_site(site: Site, out: Path) -> Path:
    """Write a site into the folder `out`, and return its first page.

    Pages of before are replaced. Raises `UsageError` when the folder cannot be written.
    """
    pages = page_templates("harness.site")
    try:
        for run in [run for cell in site.cells.values() for run in cell.runs] + list(site.drawn):
            if run.report is not None:
                write_atomically(out / REPORTS / report_name(run), run.report.read_bytes())
        for cell in site.cells.values():
            heading = f"{cell.scenario} on Kafka {group_label(cell.target)}"
            write_atomically(out / CELLS / cell.page, _runs_page(pages, heading, cell.runs))
        if site.drawn:
            page = _runs_page(pages, "Random schedules", site.drawn, is_random=True)
            write_atomically(out / CELLS / RANDOM, page)
        write_atomically(out / INDEX, _index(pages, site).encode())
    except OSError as error:
        allowed = "a folder that you can write to"
        raise UsageError("the site cannot be written", where=str(out), got=str(error), allowed=allowed) from None
    return out / INDEX


def report_name(run: RunRow) -> str:
    """Return the file name of a run's report in the site."""
    return f"{run.run_id}.html"


def _runs_page(pages: Environment, heading: str, runs: Sequence[RunRow], *, is_random: bool = False) -> bytes:
    """Return the page of some runs. Each random run is another schedule, so its page names them."""
    template = pages.get_template("runs.html.j2")
    return template.render(
        heading=heading, runs=runs, is_random=is_random, marks=MARKS, report_name=report_name, said=night_text
    ).encode()


def _index(pages: Environment, site: Site) -> str:
    largest = max((night.total for night in site.nights), default=1)
    return pages.get_template("index.html.j2").render(
        site=site,
        marks=MARKS,
        px_a_run=_BAR_PX / largest,
        bar_px=_BAR_PX,
        random_page=f"{CELLS}/{RANDOM}",
        drawn_last=sum(run.night == site.nights[-1].night for run in site.drawn),
        not_predicted=[run for run in reversed(site.drawn) if run.mark not in ("ok", "loss")][:_DRAWN_SHOWN],
        report_name=report_name,
        said=night_text,
        group_label=group_label,
    )
