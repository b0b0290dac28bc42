"""Delta debugging: finds items of which none can be left out.

The algorithm is by Zeller and Hildebrandt (2002).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

Items = tuple[int, ...]


class Subset(NamedTuple):
    """A subset of the items to test.

    `time` counts the earlier refusals of it, or of another without the same item.
    """

    kept: Items
    time: int = 0


First = Callable[[Iterable[Subset]], Subset | None]
"""Returns the first subset that shows the finding, or None; may draw more than it needs, to test in parallel."""


def ddmin(
    items: Items, first: First, *, whole: Callable[[Items], Items] = lambda items: items, refusals: int = 1
) -> Items:
    """Return a minimal subset of `items` that shows the finding.

    Without any one of its items, the subset does not show the finding. `items` are distinct and are assumed to show
    it. `whole` removes the items that are invalid without those left out, so that only valid subsets are tested. An
    item stays only after at least `refusals` refusals of the rest without it: a single refusal may be bad luck. Apart
    from that, no subset is tested twice.
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
        """Leave out chunks in one pass from the end.

        After a success, continue at the same place.

        Unlike the original algorithm this does not test single chunks: the steps that cause a loss are scattered over
        a schedule.
        """
        end = len(items)
        while end > 0:
            lows: dict[Items, int] = {}
            for high in range(end, 0, -size):
                low = max(0, high - size)
                lows.setdefault(self._whole(items[:low] + items[high:]), low)
            kept = self._first_shown(Subset(part) for part in lows if not self._refused[part])
            if kept is None:
                break
            left = set(items[: lows[kept]])
            items, end = kept, sum(item in left for item in kept)
        return items

    def without_each(self, items: Items, refusals: int) -> Items:
        """Leave out single items, in rounds, until none of those left can be left out."""
        alone: Counter[int] = Counter()
        after = items
        while True:
            # After a success, first the items after it, then those that were refused before it.
            in_turn = [item for item in reversed(items) if item in after]
            in_turn += [item for item in reversed(items) if item not in after]
            without = {item: self._whole(tuple(one for one in items if one != item)) for item in in_turn}
            unsure = [item for item in in_turn if max(alone[item], self._refused[without[item]]) < refusals]
            unsure += [item for item in in_turn if item not in unsure and not self._refused[without[item]]]
            if not unsure:
                return items
            before = self._refused.copy()
            times = {without[item]: max(alone[item], self._refused[without[item]]) for item in unsure}
            kept = self._first_shown(Subset(part, time) for part, time in times.items())
            refused = [item for item in unsure if self._refused[without[item]] > before[without[item]]]
            alone.update(refused)
            if kept is not None:
                items, after = kept, tuple(item for item in kept if item in unsure and item not in refused)

    def _first_shown(self, parts: Iterable[Subset]) -> Items | None:
        offered: list[Items] = []

        def note_offered() -> Iterator[Subset]:
            for part in parts:
                offered.append(part.kept)
                yield part

        shown = self._first(note_offered())
        # Subsets after the one that shows may not have been tested.
        self._refused.update(offered if shown is None else offered[: offered.index(shown.kept)])
        return None if shown is None else shown.kept
