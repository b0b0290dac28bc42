"""Reads a partition's offsets and record counts over time from the tables of a record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import ClassVar

import msgspec

from analysis.judge.history.service_cells import POLLED, ServiceCell, ServiceCells
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan
from analysis.record.timeline import TopicPartition
from analysis.report.picture.model import BIN_NS, LogEnds, OffsetPoint, RecordCounts
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.step import StepProof


class ObservedSeries(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that clients saw of one partition over time.

    `acked` and `polled`: the cells of the records that were sent, and of those that consumers got, by the number of the
    100 ms since the epoch.
    """

    high_watermarks: tuple[OffsetPoint, ...] = ()
    log_ends: dict[int, tuple[OffsetPoint, ...]] = {}
    acked: Mapping[int, ServiceCell] = {}
    polled: Mapping[int, ServiceCell] = {}


class ObservedOffsets(Scan[Mapping[TopicPartition, ObservedSeries]]):
    """Reads the HWs that leaders served, and the log ends."""

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "watermarks": (
            *("topic", "partition", "broker", "leader_epoch"),
            *("high_watermark", "log_end_offset", "source", "at_ns"),
        )
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._hws: dict[TopicPartition, list[OffsetPoint]] = {}
        self._ends: dict[TopicPartition, dict[int, list[OffsetPoint]]] = {}

    def add(self, rows: Rows) -> None:
        """Keep the points of a batch."""
        hw, end = rows.numbers("high_watermark"), rows.numbers("log_end_offset")
        served = rows.where_word("source", "list_offsets") & (hw >= 0)
        has_end, has_epoch = rows.known("log_end_offset"), rows.known("leader_epoch")
        at_ns, epoch = rows.numbers("at_ns"), rows.numbers("leader_epoch")
        broker = rows.numbers("broker")
        for place, here in rows.parts("partition"):
            for which, offsets in ((served, hw), (has_end, end)):
                some = here[which[here]]
                epochs = (
                    one if known else None for one, known in zip(epoch[some].tolist(), has_epoch[some], strict=True)
                )
                numbers = (column[some].tolist() for column in (at_ns, offsets, broker))
                for point in map(OffsetPoint, *numbers, epochs):
                    if offsets is hw:
                        self._hws.setdefault(place, []).append(point)
                    else:
                        self._ends.setdefault(place, {}).setdefault(point.broker, []).append(point)

    def result(self) -> Mapping[TopicPartition, ObservedSeries]:
        """Return the points of each partition by their times."""
        return {
            key: ObservedSeries(
                high_watermarks=tuple(sorted(self._hws.get(key, []), key=_time)),
                log_ends={
                    broker: tuple(sorted(points, key=_time)) for broker, points in self._ends.get(key, {}).items()
                },
            )
            for key in {*self._hws, *self._ends}
        }


def read_series(record: Record) -> dict[TopicPartition, ObservedSeries]:
    """Return the series of each partition that has any.

    Tables that are missing have no series. Raises `UsageError` when a file is damaged.
    """
    points, cells = record.seen(ObservedOffsets), record.seen(ServiceCells)
    found = dict(points)
    for place in cells.of:
        acked = cells.of_partition(place, lambda kind: isinstance(kind, int))
        polled = cells.of_partition(place, lambda kind: kind == POLLED)
        found[place] = msgspec.structs.replace(found.get(place, ObservedSeries()), acked=acked, polled=polled)
    return found


_BINS_MAX = 1_000_000
"""More than a day."""


def _time(point: OffsetPoint) -> int:
    return point.at_ns


def counts_of(series: ObservedSeries, begin_ns: int, end_ns: int) -> RecordCounts | None:
    """Return the counts of each 100 ms between two times; None if nothing was sent or read.

    None also where a damaged record has times so far apart that the counts would fill the memory.
    """
    acked, consumed = ({at: cell.services for at, cell in cells.items()} for cells in (series.acked, series.polled))
    if not any(acked.values()) and not any(consumed.values()):
        return None
    bins = range(begin_ns // BIN_NS, end_ns // BIN_NS + 1)
    if len(bins) > _BINS_MAX:
        return None
    ends = {at: cell.end for at, cell in series.acked.items()}
    return RecordCounts(
        begin_ns=bins.start * BIN_NS,
        acked=tuple(acked.get(one, 0) for one in bins),
        consumed=tuple(consumed.get(one, 0) for one in bins),
        acked_end=tuple(accumulate((ends.get(one, 0) for one in bins), max)),
    )


def log_ends_of(
    observed: dict[int, tuple[OffsetPoint, ...]], steps: Sequence[StepEntry], name: str
) -> tuple[LogEnds, ...]:
    """Return the known log ends of each replica.

    They are known where a client asked, where the proof of a fault measured the log on disk before
    and afterwards, and after the run.
    """
    points: dict[int, list[OffsetPoint]] = {broker: list(found) for broker, found in observed.items()}
    for step in steps:
        for node in step.nodes:
            points.setdefault(node, []).extend(_measured(step, node, name))
    return tuple(
        LogEnds(broker=broker, points=tuple(sorted(found, key=_time)))
        for broker, found in sorted(points.items())
        if found
    )


def _measured(step: StepEntry, node: int, name: str) -> Iterable[OffsetPoint]:
    proof = step.figures(StepProof)
    log = (proof.of(node).logs or {}).get(name)
    is_of_node = node == step.node if proof.nodes is None else node in proof.nodes
    if log is None or not is_of_node:
        return
    for offset, at_ns in ((log.leo_before, step.fired_ns), (log.leo_after, step.effect_ns)):
        if at_ns is not None and offset is not None:
            yield OffsetPoint(at_ns, offset, node)
