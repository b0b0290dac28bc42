"""Renders the advice as one HTML page without scripts or external resources."""

from __future__ import annotations

from pathlib import Path

from analysis.advise.advice import Advice
from analysis.advise.events import WHEN_MEANS
from analysis.advise.headline import MARK, MARK_MEANS, has_marked_lines, headline
from analysis.report.html import page_style
from analysis.report.pages import page_templates
from ebbtide.named_files import write_named_file
from ebbtide.shown_text import plural

LOOKS = {"survives": "holds", "loses": "violated", "unknown": "unknown", "refused": "unknown"}
"""The tag of the report that each answer looks like."""


def render_advice(advice: Advice) -> str:
    """Return the page. Every value is escaped: names come from the cluster, or from somebody's file."""
    return (
        page_templates("analysis.advise")
        .get_template("advice.html.j2")
        .render(
            advice=advice,
            headline=headline(advice),
            when_means=WHEN_MEANS,
            looks=LOOKS,
            mark=MARK,
            mark_means=MARK_MEANS if has_marked_lines(advice) else None,
            plural=plural,
            style=page_style(),
        )
    )


def write_advice(path: Path, advice: Advice) -> None:
    """Write the page to `path`."""
    write_named_file(path, render_advice(advice).encode(), "page")
