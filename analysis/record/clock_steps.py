"""Finds the steps of a record's clock that nothing explains.

A recorder that watches its clock writes times that never go back, and undoes what it saw of Kafka's clocks. Only times
that fit both sides of a step are left in doubt. In every other record, orders that must agree show a step back:

- records of the metadata log, by their offsets,
- the records of a producer, by their sequences,
- a broker's answers, which are in a file in the order in which they came,
- a question and its answer; the start, the effect and the end of a step.

A step back makes some times ambiguous: what happened in that span, before the step or after it, has no order by time.
What was decided before the first such span depends on none of them. A step forward contradicts no order: it only makes
spans longer, and none of what is concluded from an order is wrong by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from analysis.record.files import RecordFiles
from analysis.record.scans import Rows, Scan
from analysis.record.timeline import Timeline
from ebbtide.record.rows import Row
from ebbtide.record.steps import StepEntry

Times = npt.NDArray[np.int64]
Span = tuple[int, int]

AGREE_NS = 2_000_000
"""How far times of one clock may be apart: Kafka's are cut to milliseconds."""

CLOCKS_AGREE_NS = 100_000_000
"""How far the clocks of several hosts may be apart. An election and an ack further apart have the right order then."""


class _Times(NamedTuple):
    """The times of a table's rows: of a question and of its answer.

    `series`: the numbers that distinguish one series of rows of a topic from another, and `order` the column by which
    a series is ordered; None: the order of the rows. Without a series the rows have no order.
    """

    asked: str
    answered: str
    series: tuple[str, ...] = ()
    order: str | None = None


_TABLES = {
    "sends": _Times("sent_ns", "done_ns", ("partition", "producer"), "sequence"),
    "watermarks": _Times("asked_ns", "at_ns", ("partition", "broker")),
    "described": _Times("asked_ns", "at_ns", ("partition", "broker")),
    "commits": _Times("asked_ns", "done_ns"),
}
_MORE = {"sends": ("topic",), "watermarks": ("topic", "source"), "described": ("topic",), "commits": ()}


class StepsBack(Scan[list[Span]]):
    """The spans that the rows of the tables show, batch by batch."""

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        table: (*_MORE[table], one.asked, one.answered, *one.series, *([one.order] if one.order else []))
        for table, one in _TABLES.items()
    }

    def __init__(self, record: RecordFiles) -> None:
        super().__init__(record)
        self._spans: list[Span] = []

    def add(self, rows: Rows) -> None:
        """Add the spans of a batch."""
        columns = _TABLES[rows.table]
        first, last = rows.numbers(columns.asked), rows.numbers(columns.answered)
        counts = rows.where_word("source", "list_offsets") if rows.table == "watermarks" else np.ones(rows.count, bool)
        late = (first > last + AGREE_NS) & counts & rows.known(columns.asked) & rows.known(columns.answered)
        if late.any():
            self._spans.append((int(last[late].min()), int(first[late].max())))
        if columns.series:
            times = last if columns.order is None else first
            for _, here in rows.parts(*columns.series):
                some = here if counts.all() else here[counts[here]]
                if columns.order is not None:
                    order = rows.numbers(columns.order)[some]
                    some = some if (np.diff(order) >= 0).all() else some[np.argsort(order, kind="stable")]
                of_series = times[some]
                for at in np.flatnonzero(np.diff(of_series) < -AGREE_NS):
                    self._spans.append((int(of_series[at + 1]), int(of_series[at])))

    def result(self) -> list[Span]:
        """Return the spans."""
        return self._spans


def unsure_spans(
    seen: Iterable[Span], timeline: Timeline, steps: Iterable[StepEntry], *, apart_ns: int
) -> tuple[Span, ...]:
    """Return the spans of time in which a record's clock is not sure, oldest first.

    `seen`: the spans that the tables and evidence.json show. `apart_ns`: how far the controllers' clocks may be apart.
    """
    spans = [*seen, *_backward(_metadata_times(timeline), apart_ns)]
    for step in steps:
        times = [at for at in (step.fired_ns, step.effect_ns, step.healed_ns) if at is not None]
        spans += _backward(np.array(times, dtype=np.int64), AGREE_NS)
    return tuple(_merged(spans))


def _metadata_times(timeline: Timeline) -> Times:
    states = [state for states in timeline.partitions.values() for state in states]
    every: Sequence[Row] = (*states, *timeline.brokers, *timeline.configs)
    rows = sorted((row.metadata_offset, row.at_ns) for row in every)
    return np.array([at for _, at in rows], dtype=np.int64)


def _backward(times: Times, apart_ns: int) -> list[Span]:
    """Return the spans in which times that must not decrease do: from a lower time to the highest before it."""
    if not len(times):
        return []
    highest = np.maximum.accumulate(times)
    back = np.flatnonzero(times < highest - apart_ns)
    if not len(back):
        return []
    return [(int(times[back].min()), int(highest[back].max()))]


def _merged(spans: Iterable[Span]) -> list[Span]:
    found: list[Span] = []
    for from_ns, until_ns in sorted(spans):
        if found and from_ns <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], until_ns))
        else:
            found.append((from_ns, until_ns))
    return found
