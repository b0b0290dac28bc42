"""Finds the steps of a record's clock that nothing explains, and says what can still be judged by time.

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

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from analysis.record.files import RecordFiles
from analysis.record.timeline import Timeline
from ebbtide.record.rows import Row
from ebbtide.record.steps import StepEntry
from ebbtide.record.tables import TABLES
from ebbtide.untrusted.parquet import read_batches

Times = npt.NDArray[np.int64]
Span = tuple[int, int]

AGREE_NS = 2_000_000
"""How far times of one clock may be apart: Kafka's are cut to milliseconds."""

CLOCKS_AGREE_NS = 100_000_000
"""How far the clocks of several hosts may be apart. An election and an ack further apart have the right order then."""

_MARGIN_NS = 1_000_000_000
"""The orders show a step only as far as their own rows reach; the span may begin a little earlier."""


class _Times(msgspec.Struct, frozen=True, kw_only=True):
    """The times of a table's rows: of a question and of its answer.

    `series` are the columns that tell one series of rows from another, and `order` the column by which a series is
    ordered; None: the order of the rows. Without a series the rows have no order.
    """

    asked: str
    answered: str
    series: tuple[str, ...] = ()
    order: str | None = None
    where: pc.Expression | None = None

    @property
    def read(self) -> list[str]:
        """The columns to read."""
        return [self.asked, self.answered, *self.series, *([] if self.order is None else [self.order])]


_TABLES = {
    "sends": _Times(asked="sent_ns", answered="done_ns", series=("topic", "partition", "producer"), order="sequence"),
    "watermarks": _Times(
        asked="asked_ns",
        answered="at_ns",
        series=("topic", "partition", "broker"),
        where=pc.field("source") == "list_offsets",
    ),
    "described": _Times(asked="asked_ns", answered="at_ns", series=("topic", "partition", "broker")),
    "commits": _Times(asked="asked_ns", answered="done_ns"),
}


class ClockDoubt(msgspec.Struct, frozen=True, kw_only=True):
    """The spans of time in which the record's clock is not sure, oldest first.

    `is_watched`: the recorder compared the wall clock with a clock that nobody sets.
    """

    spans: tuple[Span, ...] = ()
    is_watched: bool = True

    def why_unsure(self, latest_ns: int | None) -> str | None:
        """Return why something cannot be judged by time, of which `latest_ns` is the newest time; None: it can.

        `latest_ns` None: its times are not known.
        """
        if not self.spans or (latest_ns is not None and latest_ns < self.spans[0][0] - _MARGIN_NS):
            return None
        from_ns, until_ns = self.spans[0]
        at = datetime.fromtimestamp(from_ns / 1e9, UTC)
        return (
            f"the clock was set back at or after {at:%H:%M:%S} UTC by {(until_ns - from_ns) / 1e9:.3g} s or more, "
            "and nothing says when"
        )


def clock_doubt(
    record: RecordFiles, timeline: Timeline, steps: Sequence[StepEntry] | None, *, apart_ns: int = AGREE_NS
) -> ClockDoubt:
    """Return in which spans of time the record's clock is not sure.

    `apart_ns`: how far the clocks of the controllers may be apart. Raises `UsageError` for a damaged table.
    """
    report = record.reports.timeline
    spans = list(report.unsure_ns) if report is not None else []
    spans += _backward(_metadata_times(timeline), apart_ns)
    for step in steps or ():
        times = [at for at in (step.fired_ns, step.effect_ns, step.healed_ns) if at is not None]
        spans += _backward(np.array(times, dtype=np.int64), AGREE_NS)
    for table, columns in _TABLES.items():
        for file in record.files(table):
            for batch in read_batches([file], table, schema=TABLES[table], columns=columns.read, where=columns.where):
                spans += _steps_in(batch, columns)
    return ClockDoubt(spans=tuple(_merged(spans)), is_watched=record.clocks.is_watched)


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


def _steps_in(batch: pa.RecordBatch, columns: _Times) -> Iterator[Span]:
    """Yield the spans that the rows of a batch show."""
    asked, answered = batch.column(columns.asked), batch.column(columns.answered)
    both = np.asarray(pc.and_(asked.is_valid(), answered.is_valid()))
    first, last = _numbers(asked)[both], _numbers(answered)[both]
    late = first > last + AGREE_NS
    if late.any():
        yield int(last[late].min()), int(first[late].max())
    if columns.series:
        times = _numbers(asked if columns.order else answered)
        yield from _steps_of_series(times, batch, columns)


def _steps_of_series(times: Times, batch: pa.RecordBatch, columns: _Times) -> Iterator[Span]:
    """Yield a span for each row whose time is below that of the row before it in its series."""
    if columns.order is None and not _backward(times, AGREE_NS):
        return
    keys = [np.asarray(batch.column(name).dictionary_encode().indices) for name in columns.series]
    order = np.arange(len(times)) if columns.order is None else _numbers(batch.column(columns.order))
    rows = np.lexsort((order, *keys))
    same = np.all([key[rows][1:] == key[rows][:-1] for key in keys], axis=0)
    before, after = times[rows][:-1], times[rows][1:]
    for at in np.flatnonzero(same & (after < before - AGREE_NS)):
        yield int(after[at]), int(before[at])


def _numbers(column: pa.Array) -> Times:
    return np.asarray(pc.fill_null(column, 0)).astype(np.int64)


def _merged(spans: Iterable[Span]) -> list[Span]:
    found: list[Span] = []
    for from_ns, until_ns in sorted(spans):
        if found and from_ns <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], until_ns))
        else:
            found.append((from_ns, until_ns))
    return found
