"""Chooses the rows that the rules must look at.

A row of sends, polls or replicas counts in two cases. It is at an offset of a chosen block, or its value is in a chosen
block of values: one of the answers (the module question), or one of which a row stands in a chosen block of offsets.
All rows of such a value count, wherever they are, so the conclusions are those from all rows. A poll that jumped, went
back or is damaged is also kept, but conclusions from values do not look at it.

Each file is opened once for that, and read with the columns that decide. The other columns are read of row groups with
chosen rows. The same pass feeds what else is asked of all rows once an anomaly can occur
(`Record.scans_if_possible`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from analysis.record.groups import BITS, Bools, Ints
from analysis.record.scans import RowGroup, Rows, Scan, batches, fed, feed_table, for_each, row_groups
from analysis.rows.clients import placed_sends
from analysis.rows.summing import BLOCKS_MAX, SummedRun
from ebbtide.record.tables import TABLES

Write = Callable[[str, pa.Table], None]
"""Takes rows of a table; several threads may call it at once."""

CHOSEN = ("sends", "polls", "replicas")
_BUCKETS_BITS = 20
_DECIDING = {
    "sends": ("topic", "partition", "offset", "value", "status", "txn_outcome"),
    "polls": ("topic", "partition", "offset", "value", "prev_offset", "consumer"),
    "replicas": ("topic", "partition", "offset", "value"),
}


def schema_of(table: str) -> pa.Schema:
    """Return the columns of chosen rows: those of the record format, and more.

    `run` is the index of the run. polls also has `final`, whether the row is of the final read, and
    `counts`, whether it puts its value at its offset.
    """
    fields = [pa.field(field.name, field.type) for field in TABLES[table]]
    fields.append(pa.field("run", pa.int32()))
    if table == "polls":
        fields += [pa.field("final", pa.bool_()), pa.field("counts", pa.bool_())]
    return pa.schema(fields)


def choose(one: SummedRun, write: Write) -> None:
    """Write the rows of a run that the rules must look at."""
    run, scans, whole = one.run, one.run.scans_if_possible(), sorted(one.answers.whole_tables)
    with run.kept_open(*CHOSEN, *whole):
        chosen = _chosen(one)
        for table in (*CHOSEN, *whole):
            with fed(scans, table) as wanting:
                choose_rows = partial(_choose, chosen if table in CHOSEN else None, write, scans=wanting)
                for_each(row_groups(run, one.facts.run, table), choose_rows)
    for table in sorted({table for scan in scans for table in scan.columns}):
        feed_table(run, table, scans)


def _chosen(one: SummedRun) -> Chosen | None:
    """Return what counts in a run; None: too much to distinguish it from the rest."""
    answers = one.answers
    if answers.offsets is None or answers.values is None:
        return None
    offsets, values = OffsetBlocks(answers.offsets), [answers.values]
    if answers.offsets:
        for table in ("sends", "polls"):
            groups = row_groups(one.run, one.facts.run, table)
            for_each(groups, lambda group: values.append(_values_in(group, offsets)))
    distinct = np.unique(np.concatenate(values))
    return Chosen(offsets, ValueBlocks(distinct)) if len(distinct) <= BLOCKS_MAX else None


class OffsetBlocks:
    """Blocks of offsets, by topic and partition."""

    def __init__(self, blocks: Mapping[tuple[str, int], Ints]) -> None:
        self._blocks = {place: some for place, some in blocks.items() if len(some)}

    def hold(self, rows: Rows) -> Bools:
        """Return which rows are in one of the blocks, by their partition and offset."""
        found = np.zeros(rows.count, np.bool_)
        block = rows.numbers("offset") >> BITS
        for place, here in rows.parts("partition"):
            some = self._blocks.get((place[0], place[1]))
            if some is not None:
                found[here] = _is_among(block[here], some)
        return found

    def may_hold(self, group: RowGroup) -> bool:
        """Return whether a row group may have a row in one of the blocks, by its statistics."""
        lowest, highest = _range(group, "offset")
        first, last = _range(group, "partition")
        return any(
            (first is None or last is None or first <= partition <= last)
            and (lowest is None or highest is None or _any_between(some, lowest >> BITS, highest >> BITS))
            for (_, partition), some in self._blocks.items()
        )


class ValueBlocks:
    """Blocks of values."""

    def __init__(self, blocks: Ints) -> None:
        self._blocks = np.unique(blocks)
        self._buckets = np.zeros(1 << _BUCKETS_BITS, np.bool_)
        self._buckets[_bucket(self._blocks)] = True

    def __bool__(self) -> bool:
        return len(self._blocks) > 0

    def hold(self, rows: Rows) -> Bools:
        """Return which rows have a value in one of the blocks."""
        found = np.zeros(rows.count, np.bool_)
        if self:
            block = rows.numbers("value") >> BITS
            perhaps = np.flatnonzero(self._buckets[_bucket(block)])
            found[perhaps] = _is_among(block[perhaps], self._blocks)
            found &= rows.known("value")
        return found


class Chosen(NamedTuple):
    """What counts."""

    offsets: OffsetBlocks
    values: ValueBlocks


def _values_in(group: RowGroup, offsets: OffsetBlocks) -> Ints:
    """Return the blocks of the values that rows of a row group put at offsets in these blocks."""
    found = [np.zeros(0, np.int64)]
    if offsets.may_hold(group):
        for rows in batches(group, _DECIDING[group.table]):
            there = offsets.hold(rows) & rows.known("value")
            if group.table == "sends":
                there &= placed_sends(rows)
            found.append(np.unique(rows.numbers("value")[there] >> BITS))
    return np.concatenate(found)


class _Decided(NamedTuple):
    """Which rows of a batch are needed, and their columns as far as they are read."""

    needed: Bools
    columns: dict[str, pa.Array]


def _choose(chosen: Chosen | None, write: Write, group: RowGroup, scans: Sequence[Scan[Any]] = ()) -> None:
    """Write the rows of a row group that count; None: all do. The scans get every row. No column is read twice."""
    names = TABLES[group.table].names
    first, in_blocks = {*names}, True
    if chosen is not None:
        in_blocks = chosen.offsets.may_hold(group)
        if not scans and group.table != "polls" and not in_blocks and not chosen.values:
            return
        first = {name for scan in scans for name in scan.columns[group.table]}.union(_DECIDING[group.table])
    rest, decided = [name for name in names if name not in first], list[_Decided]()
    for rows in batches(group, first):
        for scan in scans:
            scan.feed(rows)
        one = _decide(rows, chosen, first, in_blocks=in_blocks)
        if rest:
            decided.append(one)
        else:
            _write(write, group, one)
    if any(one.needed.any() for one in decided):
        for one, rows in zip(decided, batches(group, rest), strict=True):
            there = pa.array(one.needed)
            _write(write, group, _Decided(one.needed, one.columns | _columns(rows, rest, there)))


def _decide(rows: Rows, chosen: Chosen | None, names: Collection[str], *, in_blocks: bool) -> _Decided:
    every = np.ones(rows.count, np.bool_)
    counts, needed = (every, every) if chosen is None else _counts(rows, chosen, in_blocks=in_blocks)
    columns = _columns(rows, names, pa.array(needed))
    if rows.table == "polls":
        columns |= {"final": pa.array(rows.is_final()[needed]), "counts": pa.array(counts[needed])}
    return _Decided(needed, columns)


def _columns(rows: Rows, names: Collection[str], there: pa.Array) -> dict[str, pa.Array]:
    return {name: rows.column(name).filter(there) for name in names}


def _write(write: Write, group: RowGroup, one: _Decided) -> None:
    if count := int(one.needed.sum()):
        run = pa.array(np.full(count, group.run, np.int32))
        write(group.table, pa.table(one.columns | {"run": run}, schema=schema_of(group.table)))


def _counts(rows: Rows, chosen: Chosen, *, in_blocks: bool) -> tuple[Bools, Bools]:
    """Return which rows count, and which are needed: those, and polls that are noteworthy."""
    counts = chosen.values.hold(rows)
    if in_blocks:
        there = chosen.offsets.hold(rows)
        counts |= there & placed_sends(rows) if rows.group.table == "sends" else there
    if rows.group.table != "polls":
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
