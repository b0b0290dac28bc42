"""Prints the table of bench.reconcile.

It has a row for each engine and size, and shows how time grows with events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from bench.reconcile_engines import EngineRun

LARGE = 2_000_000
"""From so many events on what does not grow with them is a small part of the time."""
LINEAR_MAX = 1.10
"""Time may grow by so much more than events and still count as linear: runs differ by as much."""

HEAD = """\
| events | engine | time s (min to max) | events/s | peak GiB | CPU s |
|---|---|---|---|---|---|"""
GROWTH_HEAD = f"""
How time (median) grows with events, fixed costs included: they make growth from small sizes look better than it is.
At most linear is a ratio of at most {LINEAR_MAX:.2f}.

| engine | events | events, times | time, times | ratio | at most linear |
|---|---|---|---|---|---|"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """From one size to another: the factor in events and the factor in time."""

    engine: str
    smaller: int
    larger: int
    events: float
    time: float

    @property
    def ratio(self) -> float:
        """How much more time grows than events."""
        return self.time / self.events

    def row(self) -> str:
        """As Markdown."""
        linear = "yes" if self.ratio <= LINEAR_MAX else "no"
        sizes = f"{self.smaller:,} to {self.larger:,}"
        return f"| {self.engine} | {sizes} | {self.events:.2f} | {self.time:.2f} | {self.ratio:.2f} | {linear} |"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """All runs on one record of `rows` events, by engine.

    `asked` events were asked for; an engine without a run did not run at this size.
    """

    asked: int
    rows: int
    runs: Mapping[str, Sequence[EngineRun]]

    def table(self) -> list[str]:
        """Return a row for each engine."""
        return [self._row(engine) for engine in self.runs]

    def mistakes(self, planted: Mapping[str, int]) -> list[str]:
        """Return a sentence for each kind in which an engine found the wrong items.

        The wrong items are others than the planted ones. An engine that failed found none. A kind that is
        unknown to an engine is a mistake, planted or not.
        """
        found = [
            f"{engine} {told}"
            for engine, runs in self.runs.items()
            for one in runs
            if one.found is not None
            for told in _mistakes(one.found, one.unknown, planted)
        ]
        return list(dict.fromkeys(found))

    def failed_engines(self) -> list[str]:
        """Return the engines that failed."""
        return [engine for engine, runs in self.runs.items() if any(one.failure is not None for one in runs)]

    def _row(self, engine: str) -> str:
        runs = self.runs[engine]
        failure = next((one for one in runs if one.failure is not None), None)
        peak = f"{max(one.peak_bytes for one in runs) / 2**30:.2f}" if runs else ""
        if failure is not None or not runs:
            why = "not run at this size" if failure is None else _failure(failure)
            return f"| {self.rows:,} | {engine} | {why} | | {peak} | |"
        times, cpu = [one.time_s for one in runs], [one.cpu_s for one in runs]
        speed = f"{self.rows / median(times):,.0f}"
        return f"| {self.rows:,} | {engine} | {spread(times)} | {speed} | {peak} | {spread(cpu)} |"


def growths(sizes: Sequence[Size]) -> list[Growth]:
    """Return how the time of each engine grows with events.

    It grows between neighbouring sizes at which the engine did not fail, and over all large sizes.
    """
    found = []
    for engine in dict.fromkeys(engine for size in sizes for engine in size.runs):
        measured = [
            size
            for size in sorted(sizes, key=lambda size: size.asked)
            if size.runs.get(engine) and not any(one.failure for one in size.runs[engine])
        ]
        large = [size for size in measured if size.asked >= LARGE]
        steps = list(pairwise(measured))
        if len(large) > 2:
            steps.append((large[0], large[-1]))
        found += [_growth(engine, smaller, larger) for smaller, larger in steps if larger.rows > smaller.rows]
    return found


def spread(numbers: Sequence[float], digits: int = 1) -> str:
    """The median, and between which."""
    return f"{median(numbers):.{digits}f} ({min(numbers):.{digits}f} to {max(numbers):.{digits}f})"


def _growth(engine: str, smaller: Size, larger: Size) -> Growth:
    before, after = (median([one.time_s for one in size.runs[engine]]) for size in (smaller, larger))
    return Growth(
        engine=engine,
        smaller=smaller.rows,
        larger=larger.rows,
        events=larger.rows / smaller.rows,
        time=after / before,
    )


def _mistakes(found: Mapping[str, int], unknown: Mapping[str, str], planted: Mapping[str, int]) -> Iterator[str]:
    for kind in sorted({*found, *unknown, *planted}):
        has = f"{kind}, of which the record has {planted.get(kind, 0)}"
        if kind in unknown:
            yield f"cannot tell of {has}: {unknown[kind]}"
        elif found.get(kind, 0) != planted.get(kind, 0):
            yield f"finds {found.get(kind, 0)} items of {has}"


def _failure(failure: EngineRun) -> str:
    said = (failure.failure or "").replace("|", "/")
    return f"failed after {failure.time_s:.1f} s: {said}"
