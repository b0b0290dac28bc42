"""Reads what was sent, read and served, and what the logs have in the end, of all partitions in one pass.

A record of many rows is thinned out. What decides is kept: the lost records, what else stands at their offsets, a
record that is to be explained, and where each epoch begins and ends. Of the rest, each n-th record stays: it only
sharpens by when others were there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.causes.evidence import NEVER, UNKNOWN, AckedSends, Flags, Ints, ReadRows, Watermarks, column
from analysis.record.files import RecordFiles
from analysis.record.groups import parts_of
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan
from ebbtide.rules.table import LOST, VANISHED

_WHOLE_MAX = 2_000_000
"""Of a record with at most so many sends, polls and rows of logs, all stay; of a larger one, about as many."""
_ROW = ("value", "offset", "leader_epoch")
_KEPT = {
    "sends": AckedSends.__struct_fields__,
    "polls": (*_ROW, "polled_ns", "consumer"),
    "replicas": (*_ROW, "broker"),
    "watermarks": ("broker", "leader_epoch", "high_watermark", "asked_ns", "at_ns"),
}
_PLACE = ("topic", "partition")

Place = tuple[str, int]
"""A topic and a partition."""


class RowsOfPartitions(Scan[Mapping[tuple[str, Place], Mapping[str, Ints]]]):
    """The columns of each table and partition."""

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "sends": (*_PLACE, "status", *_KEPT["sends"]),
        "polls": (*_PLACE, *_KEPT["polls"]),
        "replicas": (*_PLACE, *_KEPT["replicas"]),
        "watermarks": (*_PLACE, "source", *_KEPT["watermarks"]),
    }

    def __init__(self, record: RecordFiles) -> None:
        super().__init__(record)
        self._each = _each(record)
        self._lost = listed(record) if self._each > 1 else {}
        self._explained = record.explained
        # Several threads read a table; its rows stay in the order of its files.
        self._parts: dict[tuple[str, Place], list[tuple[tuple[str, int], dict[str, Ints]]]] = {}

    @classmethod
    def needs_items(cls, record: RecordFiles) -> bool:
        """Whether rows are thinned out: the lost ones must be known, so that they stay."""
        return _each(record) > 1

    def add(self, rows: Rows) -> None:
        """Take what decides of some rows, and each n-th of the others."""
        names, counts = _KEPT[rows.table], _counts(rows)
        found = {name: _ints(rows.column(name)) for name in names}
        for (topic, partition), here in rows.parts("partition"):
            part = {name: values[here[counts[here]]] for name, values in found.items()}
            if self._each > 1 and "value" in part:
                keep = self._keeps(part, names[-1], *self._lost.get((topic, partition), (column(), column())))
                part = {name: values[keep] for name, values in part.items()}
            where = (str(rows.group.file.source), rows.group.number)
            self._parts.setdefault((rows.table, (topic, partition)), []).append((where, part))

    def _keeps(self, part: Mapping[str, Ints], reader: str, lost_values: Ints, lost_offsets: Ints) -> Flags:
        """Return which rows decide. Of what somebody read, these are also the ends of each epoch and reader."""
        value, offset = part["value"], part["offset"]
        keep: Flags = (value % self._each == 0) | np.isin(value, lost_values) | np.isin(offset, lost_offsets)
        if self._explained is not None:
            keep |= value == self._explained
        if "leader_epoch" in part:
            for _, mine in parts_of([part["leader_epoch"], part[reader]]):
                keep[[mine[offset[mine].argmin()], mine[offset[mine].argmax()]]] = True
        return keep

    def result(self) -> Mapping[tuple[str, Place], Mapping[str, Ints]]:
        """Return the columns that stay."""
        found = {}
        while self._parts:
            key, parts = self._parts.popitem()
            in_order = [part for _, part in sorted(parts, key=lambda one: one[0])]
            found[key] = {name: np.concatenate([part[name] for part in in_order]) for name in _KEPT[key[0]]}
        return found


def _each(record: RecordFiles) -> int:
    """Return the n of which each n-th row stays."""
    return -(-sum(record.row_counts[table] for table in ("sends", "polls", "replicas")) // _WHOLE_MAX)


def listed(record: RecordFiles) -> Mapping[Place, tuple[Ints, Ints]]:
    """Return the values and the offsets of the records that the reconciliation lists as missing, by partition."""
    table = record.items(["topic", "partition", "value", "offset"], pc.field("kind").isin([LOST, VANISHED]))
    found = {}
    for topic, partition in set(zip(table["topic"].to_pylist(), table["partition"].to_pylist(), strict=True)):
        mine = table.filter((pc.field("topic") == topic) & (pc.field("partition") == partition))
        value, offset = (np.unique(_ints(mine[name].combine_chunks())) for name in ("value", "offset"))
        found[topic, partition] = value, offset
    return found


class PartitionTables:
    """The tables of a partition."""

    def __init__(self, record: Record, topic: str, partition: int) -> None:
        self._rows, self._place = record.seen(RowsOfPartitions), (topic, partition)
        self._reader = record.manifest.final_consumer

    def sends(self) -> AckedSends:
        """Return the acked records."""
        found = self._columns("sends")
        done = found["done_ns"]
        return AckedSends(**{**found, "done_ns": np.where(done == UNKNOWN, NEVER, done)})

    def polls(self) -> tuple[ReadRows, ReadRows]:
        """Return what ordinary consumers read, and what the final read got."""
        found = self._columns("polls")
        is_final = found["consumer"] == (UNKNOWN if self._reader is None else self._reader)
        return _rows(found, ~is_final), _rows(found, is_final)

    def replicas(self) -> dict[int, ReadRows]:
        """Return the log of each broker at the end."""
        found = self._columns("replicas")
        return {one: _rows(found, found["broker"] == one) for one in np.unique(found["broker"]).tolist()}

    def watermarks(self) -> Watermarks:
        """Return the HWs that leaders served, with their leader epochs."""
        found = dict(self._columns("watermarks"))
        return Watermarks(epoch=found.pop("leader_epoch"), **found)

    def _columns(self, table: str) -> Mapping[str, Ints]:
        return self._rows.get((table, self._place)) or {name: column() for name in _KEPT[table]}


def _counts(rows: Rows) -> Flags:
    """Return which rows say anything: acks with an offset, and HWs that a leader served under an epoch."""
    if rows.table == "sends":
        return rows.where_word("status", "acked") & rows.known("offset")
    if rows.table == "watermarks":
        return rows.where_word("source", "list_offsets") & rows.known("leader_epoch")
    return np.ones(rows.count, np.bool_)


def _rows(found: Mapping[str, Ints], mine: Flags) -> ReadRows:
    at_ns = found["polled_ns"][mine] if "polled_ns" in found else np.full(int(mine.sum()), NEVER)
    value, offset, epoch = (found[name][mine] for name in _ROW)
    return ReadRows(value=value, offset=offset, epoch=epoch, at_ns=at_ns)


def _ints(values: pa.Array) -> Ints:
    found: Ints = pc.fill_null(values.cast(pa.int64()), UNKNOWN).to_numpy(zero_copy_only=False)
    return found
