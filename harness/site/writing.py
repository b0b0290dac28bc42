"""Writes the site: an overview, a page for each cell of the matrix and for random runs, and copies of the reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment

from analysis.report.pages import page_templates
from ebbtide.errors import UsageError
from ebbtide.record.files import write_atomically
from ebbtide.shown_text import plural
from harness.nightly.job import group_label
from harness.site.model import MARKS, RunRow, Site, night_text

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
        plural=plural,
    )
