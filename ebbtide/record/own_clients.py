"""What a verdict says of the user's own clients, in a line."""

from __future__ import annotations

from typing import NamedTuple

from ebbtide.record.verdict import Verdict
from ebbtide.shown_text import plural

_HANDLING = "own-commits-follow-the-handling"


class OwnCounts(NamedTuple):
    """How many records of own producers were acked, and how many of them are lost."""

    acked: int
    lost: int


def own_counts(verdict: Verdict) -> OwnCounts | None:
    """Return the records of own producers; None: their traffic was not recorded."""
    own = verdict.own_producers
    if not isinstance(own, list):
        return None
    return OwnCounts(sum(one.acked for one in own), sum(one.lost for one in own))


def own_figure(verdict: Verdict) -> str:
    """Return the records of own producers as a figure; empty: their traffic was not recorded."""
    counts = own_counts(verdict)
    if counts is None:
        return ""
    return f"{plural(counts.acked, 'acked record')}, {f'{counts.lost:,}' if counts.lost else 'none'} lost"


def own_sentence(verdict: Verdict) -> str:
    """Return what became of the records of own clients, in one line; empty: their traffic was not recorded."""
    figure = own_figure(verdict)
    if not figure:
        return ""
    found = next((one for one in verdict.properties if one.name == _HANDLING and one.status == "holds"), None)
    rows = [row for row in found.evidence if isinstance(row, dict)] if found is not None else []
    handled, twice = (sum(int(row.get(name, 0)) for row in rows) for name in ("handled", "twice"))
    groups = f"; your groups: {plural(handled, 'record')} handled before their commits" if handled else ""
    return f"your producers: {figure}{groups}{f', {twice:,} of them more than once' if twice else ''}"
