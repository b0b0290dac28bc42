"""Renders the advice as one HTML page without scripts or external resources."""

from __future__ import annotations

from analysis.advise.advice import Advice
from analysis.advise.events import WHEN_MEANS
from analysis.advise.headline import MARK, MARK_MEANS, has_marked_lines, headline
from analysis.report.pages import render_page

LOOKS = {"survives": "holds", "loses": "violated", "unknown": "unknown", "refused": "unknown"}
"""The tag of the report that each answer looks like."""


def render_advice(advice: Advice) -> str:
    """Return the page. Every value is escaped: names come from the cluster, or from somebody's file."""
    return render_page(
        "analysis.advise",
        "advice",
        advice=advice,
        headline=headline(advice),
        when_means=WHEN_MEANS,
        looks=LOOKS,
        mark=MARK,
        mark_means=MARK_MEANS if has_marked_lines(advice) else None,
    )
