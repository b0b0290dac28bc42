"""Places labels in rows so that none stands on another."""

from __future__ import annotations

from collections.abc import Sequence

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
