"""Renders a report as one HTML page without scripts or external resources."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from analysis.report.model import ReportModel
from ebbtide.record.files import write_atomically

REPORT = "report.html"


def render(report: ReportModel) -> str:
    """Return the page.

    Every value is escaped: names come from scenario files and from Kafka.
    """
    return _template().render(report=report)


@cache
def _template() -> Template:
    """Compile the template once, since that takes longer than rendering a page."""
    environment = Environment(
        loader=PackageLoader("analysis.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2")


def write_report(record: Path, report: ReportModel) -> Path:
    """Replace the record's report.html, and return its path."""
    path = record / REPORT
    write_atomically(path, render(report).encode())
    return path
