"""Groups the rows of a batch by keys, and makes one number of each group, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

BITS = 6
"""A block has 64 offsets or values: a bit each in a mask."""

_ROWS_OF_A_SUM = 8
"""Rows that lie in another order are sorted first if their groups would get less rows each than so many."""


def hashed(seed: int, *numbers: Ints, unknown: Bools | None = None) -> Ints:
    """Return a 64-bit hash of each row; `unknown`: the rows whose last number is null."""
    found = np.full(len(numbers[0]), seed, np.uint64)
    for place, number in enumerate(numbers):
        found ^= number.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        if unknown is not None and place == len(numbers) - 1:
            found[unknown] += np.uint64(0xD6E8FEB86659FD93)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            found ^= found >> np.uint64(shift)
            found *= np.uint64(factor)
        found ^= found >> np.uint64(31)
    mixed: Ints = found.view(np.int64)
    return mixed


def bit_of(numbers: Ints) -> Ints:
    """Return the bit of each number in the mask of its block."""
    bits: Ints = np.left_shift(np.uint64(1), (numbers & (2**BITS - 1)).view(np.uint64)).view(np.int64)
    return bits


def bit_count(masks: Ints) -> Ints:
    """Return the number of bits of each mask."""
    found = masks.view(np.uint64)
    found = found - ((found >> np.uint64(1)) & np.uint64(0x5555555555555555))
    found = (found & np.uint64(0x3333333333333333)) + ((found >> np.uint64(2)) & np.uint64(0x3333333333333333))
    found = (found + (found >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    counts: Ints = ((found * np.uint64(0x0101010101010101)) >> np.uint64(56)).astype(np.int64)
    return counts


def highest_bit(masks: Ints) -> Ints:
    """Return the place of the highest bit of each mask, -1 where there is none."""
    found = masks.view(np.uint64).copy()
    for shift in (1, 2, 4, 8, 16, 32):
        found |= found >> np.uint64(shift)
    return bit_count(found.view(np.int64)) - 1


class Groups:
    """The rows of a batch in groups with equal keys; a key may have several groups.

    Rows that lie together are one group. Where that makes too many groups, the rows are sorted.
    """

    def __init__(self, keys: Sequence[Ints], *, is_sorted: bool = False, unique: bool = False) -> None:
        """With `unique`, each key has one group."""
        self._order: Ints | None = None
        self.count = len(keys[0])
        self.starts = _starts(keys)
        if not is_sorted and (unique or len(self.starts) * _ROWS_OF_A_SUM > self.count):
            self._order = np.lexsort(keys[::-1])
            self.starts = _starts([key[self._order] for key in keys])
        self.rows: Ints = np.diff(self.starts, append=self.count)

    def in_order(self, column: Ints) -> Ints:
        """Return a column of the rows in the order of the groups."""
        return column if self._order is None else column[self._order]

    def first(self, column: Ints) -> Ints:
        """Return the value of a column that all rows of a group share."""
        return self.in_order(column)[self.starts]

    def over(self, function: np.ufunc, column: Ints) -> Ints:
        """Return what `function` makes of each group's numbers."""
        found: Ints = function.reduceat(self.in_order(column), self.starts)
        return found

    def counted(self, which: Bools) -> Ints:
        """Return how many of each group's rows are among `which`."""
        if which.all():
            return self.rows
        if not which.any():
            return np.zeros(len(self.starts), np.int64)
        return self.over(np.add, which.astype(np.int64))


def parts_of(keys: Sequence[Ints]) -> Iterator[tuple[tuple[int, ...], Ints]]:
    """Yield each distinct key, and where its rows are, in their order."""
    count = len(keys[0])
    if not count:
        return
    if all((key == key[0]).all() for key in keys):
        order, starts = np.arange(count), np.zeros(1, np.int64)
    else:
        order = np.lexsort(keys[::-1])
        starts = _starts([key[order] for key in keys])
    for start, end in zip(starts, [*starts[1:], count], strict=True):
        yield tuple(int(key[order[start]]) for key in keys), order[start:end]


def _starts(keys: Sequence[Ints]) -> Ints:
    changes = np.ones(len(keys[0]), np.bool_)
    changes[1:] = False
    for key in keys:
        changes[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(changes)


def added_up(
    keys: Sequence[Ints], columns: dict[str, Ints], by: dict[str, np.ufunc]
) -> tuple[list[Ints], dict[str, Ints]]:
    """Return each distinct key once, and the columns added up by key: `by` says how, else they are added."""
    groups = Groups(keys, unique=True)
    added = {name: groups.over(by.get(name, np.add), column) for name, column in columns.items()}
    return [groups.first(key) for key in keys], added
