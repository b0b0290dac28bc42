"""Says what is to be seen where shapes share a place: the parts of conditions, and the rows of labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.report.picture.model import StateSpan

LETTER_PX = 6.6
"""The mean width of a letter of a label."""
TYPICAL_PX = 560
"""The width of the picture for which rows are packed; narrower ones show short labels."""


def text_px(text: str) -> float:
    """Return about how wide a text is."""
    return LETTER_PX * len(text) + 14


def anchored(begin: float, text: str) -> tuple[str, float, float]:
    """Return the anchor of a label at `begin`, and the part of the axis that it takes.

    A label that would leave the picture at the right ends at its moment instead. One that fits on
    neither side goes where there is more room.
    """
    width = text_px(text) / TYPICAL_PX
    is_start = begin + width <= 1 or (begin < width and begin < 0.5)
    return ("start", begin, begin + width) if is_start else ("end", begin - width, begin)


def rows_for(extents: Sequence[tuple[float, float]]) -> list[int]:
    """Return the row of each extent: the first one in which it stands on no other."""
    taken: list[list[tuple[float, float]]] = []
    rows = []
    for begin, end in extents:
        free = (
            number
            for number, row in enumerate(taken)
            if all(end <= other_begin or begin >= other_end for other_begin, other_end in row)
        )
        number = next(free, len(taken))
        if number == len(taken):
            taken.append([])
        taken[number].append((begin, end))
        rows.append(number)
    return rows


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
