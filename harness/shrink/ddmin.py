"""Delta debugging: the items of which none can be left out (Zeller and Hildebrandt, 2002), whatever decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

Items = tuple[int, ...]


class Subset(NamedTuple):
    """Items to ask about; `time`: how often these, or others without the same one item, were refused before."""

    kept: Items
    time: int = 0


First = Callable[[Iterable[Subset]], Subset | None]
"""The first of several parts that shows; None: none does. May take more of them than it needs, to ask side by side."""


def ddmin(
    items: Items, first: First, *, whole: Callable[[Items], Items] = lambda items: items, refusals: int = 1
) -> Items:
    """A part of `items`, which all differ, that shows, and no longer does without any one of them.

    `items` is taken to show. `whole` leaves out what makes no sense without what was left out before, so that only
    meaningful parts are asked about. An item that stays was refused alone at least `refusals` times: the first time
    may have been bad luck. Apart from that no part is asked about twice.
    """
    search = _Search(first, whole)
    size = len(items) // 2
    while size > 1:
        items = search.without_chunks(items, size)
        size = min(size, len(items)) // 2
    return search.without_each(items, refusals)


class _Search:
    def __init__(self, first: First, whole: Callable[[Items], Items]) -> None:
        self._first = first
        self._whole = whole
        self._refused: Counter[Items] = Counter()

    def without_chunks(self, items: Items, size: int) -> Items:
        """One pass from the end, going on where it was after a success: what was just refused is no likelier now.

        Chunks alone are not asked about, as the original does: what a loss takes lies scattered over a schedule.
        """
        end = len(items)
        while end > 0:
            lows: dict[Items, int] = {}
            for high in range(end, 0, -size):
                low = max(0, high - size)
                lows.setdefault(self._whole(items[:low] + items[high:]), low)
            kept = self._asked(Subset(part) for part in lows if not self._refused[part])
            if kept is None:
                break
            left = set(items[: lows[kept]])
            items, end = kept, sum(item in left for item in kept)
        return items

    def without_each(self, items: Items, refusals: int) -> Items:
        """One item after the other, round and round, until none can be left out of what is left."""
        alone: Counter[int] = Counter()
        after = items
        while True:
            # Those that come next after a success, then those that were refused before it.
            in_turn = [item for item in reversed(items) if item in after]
            in_turn += [item for item in reversed(items) if item not in after]
            without = {item: self._whole(tuple(one for one in items if one != item)) for item in in_turn}
            unsure = [item for item in in_turn if max(alone[item], self._refused[without[item]]) < refusals]
            unsure += [item for item in in_turn if item not in unsure and not self._refused[without[item]]]
            if not unsure:
                return items
            before = self._refused.copy()
            times = {without[item]: max(alone[item], self._refused[without[item]]) for item in unsure}
            kept = self._asked(Subset(part, time) for part, time in times.items())
            refused = [item for item in unsure if self._refused[without[item]] > before[without[item]]]
            alone.update(refused)
            if kept is not None:
                items, after = kept, tuple(item for item in kept if item in unsure and item not in refused)

    def _asked(self, parts: Iterable[Subset]) -> Items | None:
        offered: list[Items] = []

        def noted() -> Iterator[Subset]:
            for part in parts:
                offered.append(part.kept)
                yield part

        shown = self._first(noted())
        # Those after the one that shows may not have been asked at all.
        self._refused.update(offered if shown is None else offered[: offered.index(shown.kept)])
        return None if shown is None else shown.kept
