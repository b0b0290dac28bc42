"""Renders a report as one self-contained HTML page: no script, no external resource, everything escaped."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from analysis.report.model import ReportModel
from ebbtide.record.files import write_atomically

REPORT = "report.html"


def render(report: ReportModel) -> str:
    """The page. Every value is escaped: names come from scenario files and from Kafka."""
    return _template().render(report=report)


@cache
def _template() -> Template:
    """Compiled once: that takes longer than the page of a record."""
    environment = Environment(
        loader=PackageLoader("analysis.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2")


def write_report(record: Path, report: ReportModel) -> Path:
    """Replace the record's report.html; returns its path."""
    path = record / REPORT
    write_atomically(path, render(report).encode())
    return path
