"""Delta debugging: the items of which none can be left out (Zeller and Hildebrandt, 2002), whatever decides."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def ddmin(
    items: tuple[T, ...],
    shows: Callable[[tuple[T, ...]], bool],
    *,
    whole: Callable[[tuple[T, ...]], tuple[T, ...]] = lambda items: items,
) -> tuple[T, ...]:
    """A part of `items` that `shows`, and no longer does without any one of them.

    `items` is taken to show; `shows` is not asked about it. `whole` leaves out what makes no sense without what was
    left out before, so that only meaningful parts are asked about; no part is asked about twice.
    """
    refused: set[tuple[T, ...]] = set()

    def asked(part: tuple[T, ...]) -> bool:
        if part in refused:
            return False
        if shows(part):
            return True
        refused.add(part)
        return False

    chunks = 2
    while len(items) > 1:
        smaller = _smaller(items, min(chunks, len(items)), asked, whole)
        if smaller is not None:
            # Chunks of the same size are tried again on what is left.
            chunks = max(2, min(chunks, len(items)) - 1)
            items = smaller
        elif chunks >= len(items):
            break
        else:
            chunks = min(len(items), chunks * 2)
    if len(items) == 1 and asked(whole(())):
        return whole(())
    return items


def _smaller(
    items: tuple[T, ...],
    chunks: int,
    asked: Callable[[tuple[T, ...]], bool],
    whole: Callable[[tuple[T, ...]], tuple[T, ...]],
) -> tuple[T, ...] | None:
    """The first part that shows of those without one chunk, the latest chunk first.

    Chunks alone are not asked about, as the original does: what a loss takes lies scattered over a schedule.
    """
    bounds = [len(items) * at // chunks for at in range(chunks + 1)]
    for low, high in reversed(list(pairwise(bounds))):
        kept = whole(items[:low] + items[high:])
        if kept and len(kept) < len(items) and asked(kept):
            return kept
    return None
