"""Renders the life of a record as one HTML page without scripts or external resources."""

from __future__ import annotations

from pathlib import Path

from analysis.explain.life import Life
from analysis.report.pages import page_templates
from analysis.sentences.words import offset_s
from ebbtide.named_files import write_named_file


def render_page(life: Life) -> str:
    """Return the page. Every value is escaped."""
    times = [offset_s(event.at_ns, life.start_ns) for event in life.events]
    return (
        page_templates("analysis.explain")
        .get_template("explain.html.j2")
        .render(life=life, events=list(zip(times, life.events, strict=True)))
    )


def write_page(path: Path, life: Life) -> None:
    """Write the page to `path`."""
    write_named_file(path, render_page(life).encode(), "page")
