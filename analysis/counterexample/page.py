"""Renders a counterexample as one HTML page without scripts or external resources."""

from __future__ import annotations

from analysis.counterexample.drawing import draw
from analysis.report.drawing.layout import LEGEND
from analysis.report.pages import render_page
from analysis.spec.explore.properties import Property
from analysis.spec.explore.question import Answer
from analysis.spec.explore.trace import Trace
from analysis.spec.explore.wording import tolerance_note
from analysis.spec.model.bounds import Bounds, bounds_in_words
from analysis.spec.variants import VARIANTS

_ASKED = ("requests-held", "asked", "an AlterPartition is on its way: the ISR that the leader asks for")
"""What the look of held requests means here."""


def render_counterexample(variant: str, bounds: Bounds, asked: Property, answer: Answer, trace: Trace) -> str:
    """Return the page of a counterexample; `variant` is a key of VARIANTS. Every value is escaped.

    The page has nothing that differs between two searches of one question, such as their speed.
    """
    protocol = VARIANTS[variant]
    drawn = draw(trace, protocol)
    return render_page(
        "analysis.counterexample",
        "counterexample",
        variant=variant.replace("_", "-"),
        bounds=bounds,
        bounds_text=bounds_in_words(bounds, recovers=protocol.recovers),
        asked=asked,
        answer=answer,
        drawn=drawn,
        note=tolerance_note(asked.name, bounds),
        legend=[_ASKED if entry[0] == _ASKED[0] else entry for entry in LEGEND if entry[0] in drawn.looks],
    )
