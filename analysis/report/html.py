"""Renders a report as one HTML page that needs no network, and no JavaScript to be complete."""

from __future__ import annotations

from pathlib import Path

from analysis.record.record import Record
from analysis.report.model import STATES_MAX, ReportModel, build
from analysis.report.pages import render_page
from analysis.report.stories import STORIES_MAX
from analysis.sentences import words
from ebbtide.record.files import write_atomically
from ebbtide.record.outages import age_text
from ebbtide.record.verdict import Verdict
from ebbtide.scenario.facts import FACTS

REPORT = "report.html"


def render(report: ReportModel) -> str:
    """Return the page.

    Every value is escaped: names come from scenario files and from Kafka. The page allows no
    script but its own and loads nothing, so a text that escaped the escaping would do nothing.
    """
    return render_page(
        "analysis.report",
        "report",
        report=report,
        verdict=report.verdict,
        words=words,
        age_text=age_text,
        facts=FACTS,
        states_max=STATES_MAX,
        stories_max=STORIES_MAX,
    )


def write_report(record: Record, verdict: Verdict, *, named: str | None = None) -> Path:
    """Replace the report.html of a judged record, and return its path; `named`: what it calls the record, if given."""
    path = record.folder / REPORT
    write_atomically(path, render(build(record, verdict, named)).encode())
    return path
