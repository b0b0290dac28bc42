"""Chooses the rows of large local records that may be in an anomaly, without Spark.

The rows are those that the module narrowing describes: of blocks of offsets that differ, or of blocks
of values that may be in an anomaly. First it reads only the columns that decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from analysis.reconcile import row_sums
from analysis.reconcile.row_batches import Bools, Ints, RowGroup, Rows, batches
from analysis.reconcile.row_sums import BITS
from ebbtide.record.tables import TABLES

_BUCKETS_BITS = 20
_DECIDING = {
    "sends": ("topic", "partition", "offset", "value", "status", "txn_outcome"),
    "polls": ("topic", "partition", "offset", "value", "prev_offset"),
    "replicas": ("topic", "partition", "offset", "value"),
}


class OffsetBlocks:
    """Blocks of offsets: (run, topic, partition, block)."""

    def __init__(self, blocks: Sequence[tuple[Any, ...]]) -> None:
        found: dict[tuple[int, str, int], list[int]] = {}
        for run, topic, partition, block in blocks:
            found.setdefault((run, topic, partition), []).append(block)
        self._blocks = {key: np.unique(np.array(some, np.int64)) for key, some in found.items()}

    def hold(self, rows: Rows) -> Bools:
        """Return which rows are in one of the blocks, by their partition and offset."""
        found = np.zeros(rows.count, np.bool_)
        block = rows.numbers("offset") >> BITS
        for (topic, partition), here in rows.parts("partition"):
            some = self._blocks.get((rows.run, topic, partition))
            if some is not None:
                found[here] = _is_among(block[here], some)
        return found

    def may_hold(self, group: RowGroup) -> bool:
        """Return whether a row group may have a row in one of the blocks, by its statistics."""
        lowest, highest = _range(group, "offset")
        first, last = _range(group, "partition")
        return any(
            run == group.run
            and (first is None or last is None or first <= partition <= last)
            and (lowest is None or highest is None or _any_between(some, lowest >> BITS, highest >> BITS))
            for (run, _, partition), some in self._blocks.items()
        )


class ValueBlocks:
    """Blocks of values: (run, block)."""

    def __init__(self, blocks: Mapping[int, Ints]) -> None:
        self._blocks = {run: np.unique(some) for run, some in blocks.items() if len(some)}
        self._buckets = {}
        for run, some in self._blocks.items():
            self._buckets[run] = np.zeros(1 << _BUCKETS_BITS, np.bool_)
            self._buckets[run][_bucket(some)] = True

    def may_hold(self, group: RowGroup) -> bool:
        """Return whether there are blocks of a row group's run."""
        return group.run in self._blocks

    def hold(self, rows: Rows) -> Bools:
        """Return which rows have a value in one of the blocks."""
        found = np.zeros(rows.count, np.bool_)
        if rows.run in self._blocks:
            block = rows.numbers("value") >> BITS
            perhaps = np.flatnonzero(self._buckets[rows.run][_bucket(block)])
            found[perhaps] = _is_among(block[perhaps], self._blocks[rows.run])
            found &= rows.known("value")
        return found


class Chosen(NamedTuple):
    """What counts."""

    offsets: OffsetBlocks
    values: ValueBlocks

    def has_any(self, group: RowGroup) -> bool:
        """Return whether a row group may have a row in any of the blocks."""
        return self.values.may_hold(group) or self.offsets.may_hold(group)


def values_in(group: RowGroup, table: str, offsets: OffsetBlocks) -> Ints:
    """Return the blocks of the values that rows of a row group put at offsets in these blocks."""
    found = [np.zeros(0, np.int64)]
    if offsets.may_hold(group):
        for rows in batches(group, table, _DECIDING[table]):
            there = offsets.hold(rows) & rows.known("value")
            if table == "sends":
                there &= row_sums.placed_sends(rows)
            found.append(np.unique(rows.numbers("value")[there] >> BITS))
    return np.concatenate(found)


def choose(group: RowGroup, table: str, chosen: Chosen) -> list[pa.Table]:
    """Return the rows of a row group that count.

    They have the columns that `tables.load` gives.
    """
    if table != "polls" and not chosen.has_any(group):
        return []
    masks = [_counts(rows, table, chosen, in_blocks=chosen.offsets.may_hold(group)) for rows in _deciding(group, table)]
    if not any(needed.any() for _, needed in masks):
        return []
    found = []
    for rows, (counts, needed) in zip(batches(group, table), masks, strict=True):
        if needed.any():
            columns = {name: rows.column(name) for name in TABLES[table].names}
            columns["run"] = pa.array(np.full(rows.count, rows.run, np.int32))
            if table == "polls":
                final = np.zeros(rows.count, np.bool_) if rows.final is None else rows.numbers("consumer") == rows.final
                columns |= {"final": pa.array(final), "counts": pa.array(counts)}
            found.append(pa.table(columns).filter(pa.array(needed)))
    return found


def _deciding(group: RowGroup, table: str) -> Sequence[Rows]:
    return [*batches(group, table, _DECIDING[table])]


def _counts(rows: Rows, table: str, chosen: Chosen, *, in_blocks: bool) -> tuple[Bools, Bools]:
    """Return which rows count, and which are needed: those, and polls that are noteworthy."""
    counts = chosen.values.hold(rows)
    if in_blocks:
        there = chosen.offsets.hold(rows)
        counts |= there & row_sums.placed_sends(rows) if table == "sends" else there
    if table != "polls":
        return counts, counts
    offset, before = rows.numbers("offset"), rows.numbers("prev_offset")
    moved = rows.known("prev_offset") & ((offset <= before) | (offset - 1 > before))
    return counts, counts | moved | ~rows.known("value")


def _bucket(blocks: Ints) -> Ints:
    mixed = blocks.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(64 - _BUCKETS_BITS)).view(np.int64)


def _is_among(numbers: Ints, some: Ints) -> Bools:
    at = np.minimum(np.searchsorted(some, numbers), len(some) - 1)
    found: Bools = some[at] == numbers
    return found


def _any_between(some: Ints, lowest: int, highest: int) -> bool:
    return bool(np.searchsorted(some, lowest) < np.searchsorted(some, highest, "right"))


def _range(group: RowGroup, column: str) -> tuple[int | None, int | None]:
    """Return the lowest and highest number of a column; None where the footer does not say."""
    columns = group.footer.row_group(group.number)
    for at in range(columns.num_columns):
        chunk = columns.column(at)
        if chunk.path_in_schema == column and chunk.statistics is not None and chunk.statistics.has_min_max:
            return int(chunk.statistics.min), int(chunk.statistics.max)
    return None, None
