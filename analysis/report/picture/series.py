"""Reads a partition's offsets and record counts over time from the tables of a record.

Sends and polls are read as a stream and counted per 100 ms, so memory grows with the length of the
run and not with its records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from analysis.record.record import Record
from analysis.record.timeline import TopicPartition
from analysis.report.picture.model import BIN_NS, LogEnds, OffsetPoint, RecordCounts
from ebbtide.record.steps import StepEntry
from ebbtide.record.tables import TABLES
from ebbtide.scenario.steps.proof import StepProof
from ebbtide.untrusted.parquet import read_batches

_BATCH_ROWS = 131_072


class BinnedRecords(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one partition by the number of the 100 ms since the epoch."""

    acked: dict[int, int] = {}
    consumed: dict[int, int] = {}
    acked_end: dict[int, int] = {}


class ObservedSeries(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that clients saw of one partition over time."""

    high_watermarks: tuple[OffsetPoint, ...] = ()
    log_ends: dict[int, tuple[OffsetPoint, ...]] = {}
    records: BinnedRecords = BinnedRecords()


class _Measured(msgspec.Struct, frozen=True):
    """One row of watermarks."""

    topic: str
    partition: int
    broker: int
    leader_epoch: int | None
    high_watermark: int | None
    log_end_offset: int | None
    source: str
    at_ns: int


def read_series(record: Record) -> dict[TopicPartition, ObservedSeries]:
    """Return the series of each partition that has any.

    Tables that are missing have no series. Raises `UsageError` when a file is damaged.
    """
    hws: dict[TopicPartition, list[OffsetPoint]] = {}
    ends: dict[TopicPartition, dict[int, list[OffsetPoint]]] = {}
    for row in record.rows("watermarks", _Measured):
        key = (row.topic, row.partition)
        if row.source == "list_offsets" and row.high_watermark is not None and row.high_watermark >= 0:
            point = OffsetPoint(row.at_ns, row.high_watermark, row.broker, row.leader_epoch)
            hws.setdefault(key, []).append(point)
        if row.log_end_offset is not None:
            point = OffsetPoint(row.at_ns, row.log_end_offset, row.broker, row.leader_epoch)
            ends.setdefault(key, {}).setdefault(row.broker, []).append(point)
    acked, acked_end = _binned(record, "sends", "done_ns", pc.field("status") == "acked", end="offset")
    consumed, _ = _binned(record, "polls", "polled_ns", pc.field("consumer") != (record.manifest.final_consumer or 0))
    keys = {*hws, *ends, *acked, *consumed}
    return {
        key: ObservedSeries(
            high_watermarks=tuple(sorted(hws.get(key, []), key=_time)),
            log_ends={broker: tuple(sorted(points, key=_time)) for broker, points in ends.get(key, {}).items()},
            records=BinnedRecords(
                acked=acked.get(key, {}), consumed=consumed.get(key, {}), acked_end=acked_end.get(key, {})
            ),
        )
        for key in keys
    }


_BINS_MAX = 1_000_000
"""More than a day."""


def _time(point: OffsetPoint) -> int:
    return point.at_ns


def _scan(record: Record, table: str, columns: list[str], only: Any = None) -> Iterable[pa.RecordBatch]:
    files = record.files(table)
    if files:
        yield from read_batches(files, table, schema=TABLES[table], columns=columns, where=only, batch_size=_BATCH_ROWS)


_Bins = dict[TopicPartition, dict[int, int]]


def _binned(record: Record, table: str, time: str, only: Any, *, end: str | None = None) -> tuple[_Bins, _Bins]:
    """Return the rows per 100 ms, and the highest `end` plus one, by partition."""
    counts: _Bins = {}
    ends: _Bins = {}
    columns = ["topic", "partition", time, *([end] if end else [])]
    for batch in _scan(record, table, columns, only & pc.field(time).is_valid()):
        if not batch.num_rows:
            continue
        found = pa.table(
            {
                "topic": batch["topic"],
                "partition": batch["partition"],
                "bin": pc.divide(batch[time], BIN_NS),
                "end": batch[end] if end else pa.nulls(batch.num_rows, pa.int64()),
            }
        )
        grouped = found.group_by(["topic", "partition", "bin"]).aggregate([([], "count_all"), ("end", "max")])
        for row in grouped.to_pylist():
            key = (row["topic"], row["partition"])
            bins = counts.setdefault(key, {})
            bins[row["bin"]] = bins.get(row["bin"], 0) + row["count_all"]
            if row["end_max"] is not None:
                reached = ends.setdefault(key, {})
                reached[row["bin"]] = max(reached.get(row["bin"], 0), row["end_max"] + 1)
    return counts, ends


def counts_of(records: BinnedRecords, begin_ns: int, end_ns: int) -> RecordCounts | None:
    """Return the counts of each 100 ms between two times; None if nothing was sent or read.

    None also where a damaged record has times so far apart that the counts would fill the memory.
    """
    if not records.acked and not records.consumed:
        return None
    bins = range(begin_ns // BIN_NS, end_ns // BIN_NS + 1)
    if len(bins) > _BINS_MAX:
        return None
    return RecordCounts(
        begin_ns=bins.start * BIN_NS,
        acked=tuple(records.acked.get(one, 0) for one in bins),
        consumed=tuple(records.consumed.get(one, 0) for one in bins),
        acked_end=tuple(accumulate((records.acked_end.get(one, 0) for one in bins), max)),
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
