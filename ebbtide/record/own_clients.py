"""What became of the records of the user's own producers, in a line."""

from __future__ import annotations

from ebbtide.record.verdict import Verdict
from ebbtide.shown_text import plural


def own_figure(verdict: Verdict) -> str:
    """Return the records of own producers as a figure; empty: their traffic was not recorded."""
    own = verdict.own_producers
    if not isinstance(own, list):
        return ""
    lost = sum(one.lost for one in own)
    return f"{plural(sum(one.acked for one in own), 'acked record')}, {f'{lost:,}' if lost else 'none'} lost"
