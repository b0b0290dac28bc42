"""The table of hashes that the processes of a large search share."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator

import numpy as np
import numpy.typing as npt

from analysis.spec.explore.shared_memory import NUMBER, SharedFile

Marks = npt.NDArray[np.int64]

_AT_ONCE = 1 << 16
"""Slots or hashes that are looked at in one step, which needs several times their memory."""


class SharedHashes:
    """A table of hashes with open addressing, of which process `at` of `jobs` fills a part.

    Each process reads all of it. The low bits of a hash name the process that adds it. They also choose the slot, and
    the next slots to try are a stride apart. So no two processes write to one slot. 0 marks a free slot,
    and a hash of 0 is kept as 1.
    """

    def __init__(self, files: tuple[SharedFile, SharedFile], at: int, jobs: int) -> None:
        self._files = files
        self._stride = 1 << (jobs - 1).bit_length()
        self._mine = np.arange(at, self._stride, jobs)
        self._slots: Marks = np.empty(0, np.int64)

    def resize(self, slots: int) -> None:
        """Give the table `slots` slots, a power of two; it then has only the hashes that this process added."""
        if slots == len(self._slots):
            return
        old = self._slots
        self._slots = np.frombuffer(self._files[0].map(slots * NUMBER), np.int64)
        self._files = (self._files[1], self._files[0])
        for some in _portions(old):
            self._add(some[some != 0])

    def add(self, marks: Collection[int]) -> None:
        """Add those of `marks` that belong to this process."""
        for some in _portions(np.fromiter(marks, np.int64, len(marks))):
            self._add(np.where(some == 0, 1, some))

    def drop_known(self, start: int, marks: array[int], *others: array[int]) -> None:
        """Drop, from place `start` on, the marks that any process added.

        `others` have one number for each mark, or several; those of the dropped marks are dropped too.
        """
        count = len(marks)
        new = ~self._knows(np.frombuffer(marks[start:], np.int64))
        if not new.all():
            for numbers in (marks, *others):
                width = len(numbers) // count
                rest = np.frombuffer(numbers[start * width :], np.int64).reshape(-1, width)
                numbers[start * width :] = array(numbers.typecode, rest[new].tobytes())

    def _add(self, kept: Marks) -> None:
        kept = kept[np.isin(kept & (self._stride - 1), self._mine)]
        at = kept & (len(self._slots) - 1)
        while len(kept):
            free = self._slots[at] == 0
            # Of several hashes for one slot, one gets it.
            self._slots[at[free]] = kept[free]
            left = self._slots[at] != kept
            kept, at = kept[left], self._next(at[left])

    def _knows(self, marks: Marks) -> npt.NDArray[np.bool_]:
        known = np.zeros(len(marks), np.bool_)
        kept = np.where(marks == 0, 1, marks)
        which, at = np.arange(len(kept)), kept & (len(self._slots) - 1)
        while len(which):
            there = self._slots[at]
            same = there == kept[which]
            known[which[same]] = True
            left = ~same & (there != 0)
            which, at = which[left], self._next(at[left])
        return known

    def _next(self, at: Marks) -> Marks:
        return (at + self._stride) & (len(self._slots) - 1)


def _portions(numbers: Marks) -> Iterator[Marks]:
    for start in range(0, len(numbers), _AT_ONCE):
        yield numbers[start : start + _AT_ONCE]
