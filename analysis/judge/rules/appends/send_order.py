"""Finds the acked sends whose offset is below that of the value that their producer sent before.

Of a batch, only these rows are kept: those next to a decrease of the offset, and the first and the last row of each
producer and partition. The offsets of the rows between do not decrease, so the remaining neighbours are in order too.
That holds only if no other batch has sequences between those of a batch. Where one has, all rows of that producer and
partition are read once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from analysis.record.groups import BITS, Bools, Ints
from analysis.record.record import Record
from analysis.record.scans import RowGroup, Rows, batches, for_each, row_groups
from analysis.rows.question import KindAnswer, KindQuestion, Place, RowType, RunSums

Producer: TypeAlias = tuple[str, int, int]
"""A topic, a partition and a producer."""

ROWS_MAX = 16_000_000
"""So many rows of producers whose batches overlap are in memory at once."""
_COLUMNS = ("topic", "partition", "producer", "sequence", "offset", "value", "status")
_BEFORE = pa.struct([("offset", pa.int64()), ("value", pa.int64()), ("sequence", pa.int64())])
_INVERSIONS = pa.schema(
    [
        *(pa.field(name, kind) for name, kind in (("run", pa.int32()), ("topic", pa.string()))),
        *(pa.field(name, pa.int32()) for name in ("partition", "producer")),
        *(pa.field(name, pa.int64()) for name in ("sequence", "offset", "value")),
        pa.field("before", _BEFORE),
    ]
)
"""A send whose offset is below that of the value before, and that value."""


class SendOrder:
    """The rows of sends that matter for their order, by producer and partition."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._rows: dict[Producer, list[Ints]] = {}
        self._ranges: dict[Producer, list[tuple[int, int, int]]] = {}

    def add(self, rows: Rows) -> None:
        """Add a batch."""
        for producer, some in _by_producer(rows):
            back = np.diff(some[:, 1]) < 0
            matters = np.zeros(len(some), np.bool_)
            matters[0] = matters[-1] = True
            matters[1:] |= back
            matters[:-1] |= back
            with self._lock:
                self._ranges.setdefault(producer, []).append((int(some[0, 0]), int(some[-1, 0]), len(some)))
                self._rows.setdefault(producer, []).append(some[matters])

    def overlapping(self) -> dict[Producer, tuple[int, int, int]]:
        """Return the producers that have batches with overlapping sequences: the range of these, and their rows."""
        found = {}
        for producer, ranges in self._ranges.items():
            ordered = sorted(ranges)
            if any(after[0] <= before[1] for before, after in pairwise(ordered)):
                rows = sum(count for _, _, count in ordered)
                found[producer] = (ordered[0][0], max(last for _, last, _ in ordered), rows)
        return found

    def inversions(self, groups: Sequence[RowGroup]) -> dict[Producer, Ints]:
        """Return the pairs: sequence, offset and value of the later send, and of the one before.

        `groups` are the row groups of sends.
        """
        again = self.overlapping()
        found = {producer: _decreases(some) for producer, some in self._rows.items() if producer not in again}
        carried: dict[Producer, Ints] = {}
        for wanted in _passes(again):
            read: dict[Producer, list[Ints]] = {key: [carried[key]] if key in carried else [] for key in wanted}
            for_each(groups, partial(_read, read, wanted, Lock()))
            for producer, some in read.items():
                if some:
                    pairs, last = _decreases(some), max(some, key=lambda one: one[-1].tolist())[-1:]
                    carried[producer] = last
                    found[producer] = np.concatenate([found[producer], pairs]) if producer in found else pairs
        return {producer: pairs for producer, pairs in found.items() if len(pairs)}


def _by_producer(rows: Rows) -> Iterator[tuple[Producer, Ints]]:
    """Yield sequence, offset and value of the acked sends with an offset of each producer, in their order."""
    columns = np.stack([rows.numbers(name) for name in ("sequence", "offset", "value")], 1)
    placed: Bools = rows.where_word("status", "acked") & rows.known("offset")
    for producer, here in rows.parts("partition", "producer"):
        some = columns[here[placed[here]]]
        if len(some):
            yield producer, some if (np.diff(some[:, 0]) > 0).all() else _in_order(some)


def _in_order(some: Ints) -> Ints:
    return some[np.lexsort((some[:, 2], some[:, 1], some[:, 0]))]


def _decreases(parts: Sequence[Ints]) -> Ints:
    some = _in_order(np.concatenate(parts))
    back = np.flatnonzero(np.diff(some[:, 1]) < 0)
    return np.concatenate([some[back + 1], some[back]], 1)


def _passes(again: Mapping[Producer, tuple[int, int, int]]) -> Iterator[dict[Producer, tuple[int, int]]]:
    """Yield which sequences of which producers to read in one pass, so that few rows are in memory."""
    waiting: dict[Producer, tuple[int, int]] = {}
    rows = 0
    for producer, (first, last, count) in again.items():
        parts = -(-count // ROWS_MAX)
        if parts > 1:
            bounds = [first + (last + 1 - first) * at // parts for at in range(parts + 1)]
            yield from ({producer: (low, high - 1)} for low, high in pairwise(bounds))
            continue
        if rows + count > ROWS_MAX:
            yield waiting
            waiting, rows = {}, 0
        waiting[producer] = (first, last)
        rows += count
    if waiting:
        yield waiting


def _read(
    read: dict[Producer, list[Ints]], wanted: Mapping[Producer, tuple[int, int]], lock: Lock, group: RowGroup
) -> None:
    for rows in batches(group, _COLUMNS):
        for producer, some in _by_producer(rows):
            if producer in wanted:
                low, high = wanted[producer]
                here = some[(some[:, 0] >= low) & (some[:, 0] <= high)]
                if len(here):
                    with lock:
                        read[producer].append(here)


def _as_table(run: int, found: Mapping[Producer, Ints]) -> pa.Table:
    """Return the pairs of a run as rows of `INVERSIONS`."""
    tables = [_INVERSIONS.empty_table()]
    for (topic, partition, producer), pairs in found.items():
        same = {"run": run, "topic": topic, "partition": partition, "producer": producer}
        columns = [pa.repeat(pa.scalar(one, _INVERSIONS.field(name).type), len(pairs)) for name, one in same.items()]
        columns += [pa.array(pairs[:, at].copy()) for at in range(3)]
        before = [pa.array(pairs[:, at].copy()) for at in (4, 5, 3)]
        columns.append(pa.StructArray.from_arrays(before, fields=[*_BEFORE]))
        tables.append(pa.Table.from_arrays(columns, schema=_INVERSIONS))
    return pa.concat_tables(tables)


INVERSIONS = RowType("inversions", _INVERSIONS, lambda summed: _as_table(summed.facts.run, summed.of(Disordered).found))
"""The pairs of a run."""


class Disordered(KindQuestion):
    """Is there an acked value whose offset is below that of the value before? Else none is out of order."""

    row_types = (INVERSIONS,)
    reads: Mapping[str, tuple[str, ...]] = {"sends": ()}

    def __init__(self, run: Record, folder: Callable[[], Path]) -> None:
        super().__init__(run, folder)
        self._order = SendOrder()
        self.found: dict[Producer, Ints] = {}

    def add(self, rows: Rows) -> None:
        """Add a batch of sends."""
        self._order.add(rows)

    def answer(self, summed: RunSums) -> KindAnswer:
        """Return the blocks of the values before."""
        if summed.facts.rows["sends"] and summed.facts.rows["polls"]:
            self.found = self._order.inversions(row_groups(self.run, summed.facts.run, "sends"))
        offsets: dict[Place, list[Ints]] = {}
        for (topic, partition, _), pairs in self.found.items():
            offsets.setdefault((topic, partition), []).append(np.unique(pairs[:, 4] >> BITS))
        return KindAnswer(offsets={place: np.concatenate(some) for place, some in offsets.items()})
