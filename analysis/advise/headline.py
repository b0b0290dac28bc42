"""What the page and the terminal say first about a cluster."""

from __future__ import annotations

from typing import Literal

import msgspec

from analysis.advise.advice import Advice
from ebbtide.plurals import plural


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """One line, a sentence about the time of the reading if no partition was in danger then, and the page's colour."""

    text: str
    when_read: str | None = None
    look: Literal["contradicted", "inconclusive", "as-predicted"]


def headline(advice: Advice) -> Headline:
    """Return the gravest: partitions in danger, then events that lose records, then events without an answer.

    Only the reading can say that no partition is in danger: a later failure is a line of the tables.
    """
    if advice.dangers:
        count = sum(one.count for one in advice.dangers)
        return Headline(text=f"{plural(count, 'partition')} in danger when the cluster was read", look="contradicted")
    if not advice.groups:
        return Headline(text="No topic is visible", look="inconclusive")
    answers = [line.today.acks_all.says for one in advice.groups for line in one.lines]
    losing, unknown = answers.count("loses"), answers.count("unknown")
    when_read = (
        "When the cluster was read, each partition of these topics had a leader, and all its replicas were in the ISR."
    )
    if losing:
        text = f"{plural(losing, 'event')} would lose records with acks=all"
        return Headline(text=text, when_read=when_read, look="inconclusive")
    if unknown:
        text = f"No event is known to lose records with acks=all, but {unknown} of {len(answers)} answers are unknown"
        return Headline(text=text, when_read=when_read, look="inconclusive")
    text = "None of the events in the tables loses records with acks=all"
    return Headline(text=text, when_read=when_read, look="as-predicted")
