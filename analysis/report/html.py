"""Renders a report as one HTML page that needs no network, and no JavaScript to be complete."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

from analysis.record.record import Record
from analysis.report.model import STATES_MAX, ReportModel, build
from analysis.report.pages import page_templates, script_hash
from analysis.report.stories import STORIES_MAX
from analysis.sentences import words
from ebbtide.record.files import write_atomically
from ebbtide.record.outages import age_text
from ebbtide.record.verdict import Verdict
from ebbtide.scenario.facts import FACTS

REPORT = "report.html"
_D3 = (
    "selection",
    "dispatch",
    "color",
    "interpolate",
    "timer",
    "ease",
    "transition",
    "drag",
    "zoom",
    "array",
)
"""The modules of d3 that zooming needs, each after those that it needs."""
_FITS_PX = (300, 600, 900)
"""Widths of the picture from which on a text is shown without JavaScript."""


def render(report: ReportModel) -> str:
    """Return the page.

    Every value is escaped: names come from scenario files and from Kafka. The page allows no
    script but its own and loads nothing, so a text that escaped the escaping would do nothing.
    """
    script = page_script()
    return (
        page_templates("analysis.report")
        .get_template("report.html.j2")
        .render(
            report=report,
            verdict=report.verdict,
            words=words,
            age_text=age_text,
            facts=FACTS,
            states_max=STATES_MAX,
            stories_max=STORIES_MAX,
            style=page_style(),
            script=script,
            script_hash=script_hash(script),
            fit_class=fit_class,
        )
    )


@cache
def page_script() -> str:
    """Return the script of the page: the modules of d3, then that of the report."""
    folder = files("analysis.report") / "scripts"
    parts = [(folder / "d3" / f"d3-{name}.min.js").read_text() for name in _D3]
    return "\n".join([*parts, (folder / "report.js").read_text()])


@cache
def page_style() -> str:
    """Return the style sheet of the page."""
    folder = files("analysis.report") / "templates"
    return "".join((folder / name).read_text() for name in ("report.css", "picture.css"))


def fit_class(fit_px: int) -> str:
    """Return the class of a text that needs a picture as wide as `fit_px`."""
    if not fit_px:
        return "f0"
    return f"f{next((width for width in _FITS_PX if fit_px <= width), 9999)}"


def write_report(record: Record, verdict: Verdict, *, named: str | None = None) -> Path:
    """Replace the report.html of a judged record, and return its path; `named`: what it calls the record, if given."""
    path = record.folder / REPORT
    write_atomically(path, render(build(record, verdict, named)).encode())
    return path
