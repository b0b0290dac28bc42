"""Finds HWs that a leader served below the start of its leader epoch.

The logs say where an epoch begins: at an offset of that epoch, right behind one of an older epoch in the same log. A
log that lacks the record before it says nothing: it may lack more.

A leader reads its HW for the answer before it compares its HW with that start. So one answer may be low while the HW
rises. Once a leader has answered in its epoch, its HW is above the start, so that only what it is asked for afterwards
counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from analysis.judge.history.evidence import Row
from analysis.record.groups import Ints
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan


class EpochStarts(NamedTuple):
    """How many leader epochs have a known start and two served HWs, and the lowest HW of each that served one below.

    `newest`: the newest leader epoch in each log, by topic, partition and broker.
    """

    compared: int
    below: Sequence[Row]
    newest: Mapping[tuple[str, int, int], int]


class FindHwsBelowStart(Scan[EpochStarts]):
    """Compares the HWs that leaders served with where their epochs begin in the logs."""

    columns: ClassVar[dict[str, tuple[str, ...]]] = {
        "watermarks": ("topic", "partition", "broker", "leader_epoch", "high_watermark", "source", "asked_ns", "at_ns"),
        "replicas": ("topic", "partition", "broker", "leader_epoch", "offset"),
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._answered: dict[tuple[str, int, int], int] = {}
        self._lowest: dict[tuple[str, int, int], dict[str, int]] = {}
        self._ends: dict[tuple[str, int, int], dict[int, tuple[int, int]]] = {}

    def add(self, rows: Rows) -> None:
        """Add a batch of one of the tables."""
        if rows.table == "watermarks":
            served = rows.where_word("source", "list_offsets") & rows.known("leader_epoch") & rows.known("asked_ns")
            for place, every in rows.parts("partition", "leader_epoch"):
                if len(here := every[served[every]]):
                    self._add_answers(rows, place, here)
            return
        for (topic, partition, broker, epoch), here in rows.parts("partition", "broker", "leader_epoch"):
            offsets, ends = rows.numbers("offset")[here], self._ends.setdefault((topic, partition, broker), {})
            first, last = int(offsets.min()), int(offsets.max())
            before = ends.get(epoch, (first, last))
            ends[epoch] = min(first, before[0]), max(last, before[1])

    def _add_answers(self, rows: Rows, place: tuple[str, int, int], here: Ints) -> None:
        """Keep the lowest HW that was asked for after an answer had come."""
        answered_ns = int(rows.numbers("at_ns")[here].min())
        self._answered[place] = answered_ns = min(answered_ns, self._answered.get(place, answered_ns))
        later = here[rows.numbers("asked_ns")[here] > answered_ns]
        if len(later):
            at = later[np.argmin(rows.numbers("high_watermark")[later])]
            row = {name: int(rows.numbers(name)[at]) for name in ("high_watermark", "broker", "asked_ns", "at_ns")}
            self._lowest[place] = min(self._lowest.get(place, row), row, key=lambda one: one["high_watermark"])

    def result(self) -> EpochStarts:
        """Return the HWs."""
        starts: dict[tuple[str, int, int], int] = {}
        for (topic, partition, _), ends in self._ends.items():
            for epoch, (first, _) in ends.items():
                if any(last == first - 1 and older < epoch for older, (_, last) in ends.items()):
                    starts[topic, partition, epoch] = min(first, starts.get((topic, partition, epoch), first))
        compared = starts.keys() & self._lowest.keys()
        below = []
        for topic, partition, epoch in sorted(compared):
            start, row = starts[topic, partition, epoch], self._lowest[topic, partition, epoch]
            if row["high_watermark"] < start:
                about = {"topic": topic, "partition": partition, "leader_epoch": epoch, "epoch_start": start}
                below.append({**about, **row})
        return EpochStarts(len(compared), below, {place: max(ends) for place, ends in self._ends.items()})
