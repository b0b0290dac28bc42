"""Reads between which offsets of its log a record lies that nobody saw there, from HWs.

Whoever appends a record after a leader answered with its HW appends it at that offset or above. A
leader that acks a record to all of its ISR has raised its HW above it by then. So HWs of one leader
epoch that were asked for before and after bound the offset.
"""

from __future__ import annotations

import msgspec
import pyarrow.compute as pc

from analysis.record.files import of_partition
from analysis.record.record import Record


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A HW that a leader served."""

    leader_epoch: int
    high_watermark: int
    asked_ns: int
    at_ns: int


class OffsetBounds(msgspec.Struct, frozen=True, kw_only=True):
    """The lowest and the highest offset at which a record can lie; `highest` None: not known."""

    lowest: int
    highest: int | None


def marks_of(record: Record, topic: str, partition: int) -> list[Mark]:
    """Return the HWs that leaders of a partition served, with their questions' times.

    Raises `UsageError` when a file is damaged.
    """
    where = (
        of_partition(topic, partition)
        & (pc.field("source") == "list_offsets")
        & pc.field("leader_epoch").is_valid()
        & pc.field("asked_ns").is_valid()
    )
    columns = ["leader_epoch", "high_watermark", "asked_ns", "at_ns"]
    rows = [row for batch in record.batches("watermarks", columns, where) for row in batch.to_pylist()]
    return [msgspec.convert(row, Mark) for row in rows]


def bounds_of(marks: list[Mark], *, leader_epoch: int, sent_ns: int, acked_ns: int) -> OffsetBounds:
    """Return where a record lies that was appended under `leader_epoch` between the two times."""
    own = [one for one in marks if one.leader_epoch == leader_epoch]
    before = [one.high_watermark for one in own if one.at_ns <= sent_ns]
    after = [one.high_watermark - 1 for one in own if one.asked_ns >= acked_ns]
    lowest = max(before, default=0)
    return OffsetBounds(lowest=lowest, highest=max(min(after), lowest) if after else None)
