"""The table of hashes that the processes of a large search share."""

from __future__ import annotations

from array import array
from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from analysis.spec.explore.shared_memory import NUMBER, SharedFile

Numbers = npt.NDArray[np.int64]
"""Hashes, or numbers of slots."""

_AT_ONCE = 1 << 16
"""So many hashes are added in one step, which needs several times their memory."""


class SharedHashes:
    """A table of hashes with open addressing, of which process `at` of `jobs` fills a part.

    Each process reads all of it. The low bits of a hash name the process that adds it. They also choose the slot, and
    the next slots to try are a stride apart. So no two processes write to one slot. 0 marks a free slot,
    and a hash of 0 is kept as 1. NumPy looks for the slots of many hashes in one step.
    """

    def __init__(self, files: tuple[SharedFile, SharedFile], at: int, jobs: int) -> None:
        self._files = files
        # The power of two from `jobs` on: the low bits are the remainder of dividing by it.
        self._stride = 1 << (jobs - 1).bit_length()
        self._my_low_bits = np.arange(at, self._stride, jobs)
        self._slots: Numbers = np.empty(0, np.int64)

    def resize(self, slots: int) -> None:
        """Move to a table of `slots` slots, a power of two, and take along the hashes that this process added.

        The other processes take along theirs.
        """
        if slots == len(self._slots):
            return
        old = self._slots
        self._slots = np.frombuffer(self._files[0].map(slots * NUMBER), np.int64)
        self._files = (self._files[1], self._files[0])
        self._add(old)

    def add(self, marks: Collection[int]) -> None:
        """Add those of `marks` that belong to this process."""
        self._add(_without_0(np.fromiter(marks, np.int64, len(marks))))

    def drop_known(self, start: int, marks: array[int], *others: array[int]) -> None:
        """Drop, from place `start` on, the marks that any process added.

        `others` have one number for each mark, or several; those of the dropped marks are dropped too.
        """
        count = len(marks)
        new = ~self._knows(_without_0(np.frombuffer(marks[start:], np.int64)))
        if not new.all():
            for numbers in (marks, *others):
                width = len(numbers) // count
                rest = np.frombuffer(numbers[start * width :], np.int64).reshape(-1, width)
                numbers[start * width :] = array(numbers.typecode, rest[new].tobytes())

    def _add(self, hashes: Numbers) -> None:
        """Add those of the hashes that belong to this process, without the zeros of free slots."""
        for start in range(0, len(hashes), _AT_ONCE):
            some = hashes[start : start + _AT_ONCE]
            some = some[(some != 0) & np.isin(some & (self._stride - 1), self._my_low_bits)]
            slots = some & (len(self._slots) - 1)
            while len(some):
                free = self._slots[slots] == 0
                # Several hashes may choose one free slot. One of them gets it; the others try their next slot.
                self._slots[slots[free]] = some[free]
                homeless = self._slots[slots] != some
                some, slots = some[homeless], self._next(slots[homeless])

    def _knows(self, hashes: Numbers) -> npt.NDArray[np.bool_]:
        """Return for each hash whether any process added it."""
        known = np.zeros(len(hashes), np.bool_)
        places, slots = np.arange(len(hashes)), hashes & (len(self._slots) - 1)
        while len(places):
            found = self._slots[slots]
            same = found == hashes[places]
            known[places[same]] = True
            open_ = ~same & (found != 0)
            places, slots = places[open_], self._next(slots[open_])
        return known

    def _next(self, slots: Numbers) -> Numbers:
        return (slots + self._stride) & (len(self._slots) - 1)


def _without_0(hashes: Numbers) -> Numbers:
    return np.where(hashes == 0, 1, hashes)
