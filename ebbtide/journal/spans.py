"""Ranges of sequences with a value each; the last value set for a sequence counts."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Spans(Generic[T]):
    """Disjoint ranges `[first, first + count)`; a later `put` covers what it overlaps.

    Memory is used per range, not per sequence: an answered batch is one range.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._spans: dict[int, tuple[int, T]] = {}

    def put(self, first: int, count: int, value: T) -> None:
        """Set the value of a range, over any earlier values."""
        end = first + count
        if not count:
            return
        if self._starts and first < self._end(self._starts[-1]):
            self._cut(first, end)
        if not self._starts or first > self._starts[-1]:
            self._starts.append(first)
        else:
            insort(self._starts, first)
        self._spans[first] = (end, value)

    def cover(self, first: int, count: int) -> Iterator[tuple[int, int, T | None]]:
        """Yield `(start, count, value)` pieces that together are exactly the range.

        The value is None in the gaps.
        """
        at, end = first, first + count
        index = max(0, bisect_right(self._starts, at) - 1)
        while at < end:
            while index < len(self._starts) and self._end(self._starts[index]) <= at:
                index += 1
            if index == len(self._starts) or self._starts[index] >= end:
                yield at, end - at, None
                return
            start = self._starts[index]
            if start > at:
                yield at, start - at, None
                at = start
            span_end, value = self._spans[start]
            piece = min(span_end, end) - at
            yield at, piece, value
            at += piece

    def _end(self, start: int) -> int:
        return self._spans[start][0]

    def _cut(self, first: int, end: int) -> None:
        """Remove `[first, end)` from the ranges; keep what extends beyond it."""
        index = max(0, bisect_right(self._starts, first) - 1)
        while index < len(self._starts) and self._starts[index] < end:
            start = self._starts[index]
            span_end, value = self._spans[start]
            if span_end <= first:
                index += 1
                continue
            del self._starts[index], self._spans[start]
            for low, high in ((start, min(first, span_end)), (max(end, start), span_end)):
                if low < high:
                    insort(self._starts, low)
                    self._spans[low] = (high, value)
                    index = bisect_right(self._starts, low)
