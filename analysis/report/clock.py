"""Says in a sentence whether a record's clock was watched, and how it was set."""

from __future__ import annotations

from analysis.record.record import Record


def clock_sentence(record: Record) -> str:
    """Return what is known of the wall clock during the run. Raises `UsageError` for a damaged clock.jsonl."""
    clocks = record.clocks
    if not clocks.is_watched:
        return "not watched: only times that contradict each other would show that it was set"
    steps = [after.lead_ns - before.lead_ns for before, after in clocks.steps()]
    if not steps:
        return "watched: nobody set it"
    ends = [("forward", max(steps)), ("back", -min(steps))]
    moves = [f"{way} by up to {by / 1e9:,.3f} s" for way, by in ends if by > 0]
    times = "once" if len(steps) == 1 else f"{len(steps):,} times"
    return f"watched: it was set {times}, {' and '.join(moves)}; the times of the run do not depend on it"
