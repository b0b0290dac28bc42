"""Says which parts of a node's conditions are to be seen where several hold at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.report.picture.model import StateSpan

SEVERITY = (
    "cut",
    "slow-link",
    "cut-off",
    "requests-held",
    "disk-slow",
    "disk-full",
    "disk-dead",
    "paused",
    "down",
)
"""Conditions that stand on each other: a later one covers an earlier one."""
Piece = tuple[int, int | None]
"""A time from its begin to its end in nanoseconds; None: to the end of the run."""


def uncovered(spans: Sequence[StateSpan]) -> list[tuple[StateSpan, list[Piece]]]:
    """Return each condition with the times at which no worse one covers it, in order of time."""
    worst_first = sorted(spans, key=lambda span: -SEVERITY.index(span.state))
    found = []
    for at, span in enumerate(worst_first):
        pieces: list[Piece] = [(span.begin_ns, span.end_ns)]
        for other in worst_first[:at]:
            pieces = [left for piece in pieces for left in _without(piece, (other.begin_ns, other.end_ns))]
        found.append((span, pieces))
    return sorted(found, key=lambda one: one[0].begin_ns)


def _without(piece: Piece, other: Piece) -> Iterator[Piece]:
    """Yield what is left of one time without another; an end of None is the end of the run."""
    (begin_ns, end_ns), (other_begin_ns, other_end_ns) = piece, other
    until, other_until = (float("inf") if end is None else end for end in (end_ns, other_end_ns))
    if other_begin_ns >= until or other_until <= begin_ns:
        yield piece
        return
    if begin_ns < other_begin_ns:
        yield begin_ns, other_begin_ns
    if other_end_ns is not None and other_until < until:
        yield other_end_ns, end_ns
