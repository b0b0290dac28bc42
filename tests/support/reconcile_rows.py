"""What NumPy does with the rows of large records, and what it must do: for tests and for mutants of these rules.

Functions of the modules are looked up at each call, because a mutant replaces them.
"""

from __future__ import annotations

import random
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from records import RecordBuilder, as_record

from analysis.reconcile import row_choice, row_order
from analysis.reconcile.files import TableFile
from analysis.reconcile.row_batches import RowGroup, Rows, row_groups
from analysis.reconcile.tables import run_files
from ebbtide.record.tables import TABLES

RANGES_APART: tuple[tuple[tuple[tuple[int, int], ...], bool], ...] = (
    (((0, 3), (4, 9)), True),
    (((4, 9), (0, 3)), True),
    (((0, 4), (4, 9)), False),
    (((0, 9), (4, 5)), False),
    (((0, 9), (20, 30), (5, 6)), False),
)
"""The lowest and highest sequences of batches, and whether no two of them overlap."""


BATCHES_IN_ORDER: tuple[tuple[tuple[tuple[tuple[int, int], ...], ...], bool, int], ...] = (
    ((((0, 1), (1, 5), (2, 9), (2, 3), (3, 10)),), True, 1),
    ((((0, 1), (1, 2), (8, 3), (9, 4)), ((4, 5), (5, 6))), False, 1),
    ((((0, 1), (1, 2), (3, 3), (2, 4)), ((4, 5), (5, 6))), True, 1),
)
"""Batches of one producer's acked sends, as sequences and offsets; whether they are apart, and how many decreases."""


def what_differs() -> str | None:
    """Return which rule has a wrong result; None if none has."""
    if any(are_apart(ranges) != apart for ranges, apart in RANGES_APART):
        return "overlapping batches"
    lost, _, _ = lost_decreases()
    if lost or any(order_of(batches) != (apart, count) for batches, apart, count in BATCHES_IN_ORDER):
        return "order of sends"
    with tempfile.TemporaryDirectory() as folder:
        chosen, expected = chosen_polls(Path(folder))
    return "chosen polls" if chosen != expected else None


def rows_of(table: str, rows: list[dict[str, Any]]) -> Rows:
    """Return rows of a table as one batch."""
    batch = pa.RecordBatch.from_pylist(rows, schema=TABLES[table])
    file = TableFile(path=Path("none"), rows=len(rows), columns={})
    return Rows(batch, table, RowGroup(0, file, 0, None, None))


def are_apart(ranges: tuple[tuple[int, int], ...]) -> bool:
    """Return what the sequence ranges of one partition are found to be, among those of others."""
    found = row_order.SequenceRanges()
    for lowest, highest in ranges:
        found.add((0, "t", 0, 1), lowest, highest)
    for other in ((0, "t", 0, 2), (0, "t", 1, 1), (0, "u", 0, 1), (1, "t", 0, 1)):
        found.add(other, 0, 100)
    return found.are_apart()


def chosen_polls(folder: Path) -> tuple[list[tuple[int, int | None]], list[tuple[int, int | None]]]:
    """Return the polls that are chosen where no block differs, and those that must be: offsets and previous ones."""
    builder = RecordBuilder()
    for offset, before in ((5, None), (6, 5), (6, 6), (5, 6), (7, 5), (8, 7)):
        builder.read(offset, at=offset, prev_offset=before)
    # Narrowing needs a damaged one too.
    builder.read(None, at=9, prev_offset=8)
    (group,) = row_groups([run_files(as_record(builder.write(folder / "polls"), builder.manifest()))], "polls")
    no_block = row_choice.Chosen(row_choice.OffsetBlocks([]), row_choice.ValueBlocks({}))
    rows = pa.concat_tables(row_choice.choose(group, "polls", no_block)).to_pylist()
    return [(row["offset"], row["prev_offset"]) for row in rows], [(6, 6), (5, 6), (7, 5), (9, 8)]


def order_of(batches: tuple[tuple[tuple[int, int], ...], ...]) -> tuple[bool, int]:
    """Return whether the batches are found to be apart, and how many decreases the chosen rows have."""
    ranges, chosen = row_order.SequenceRanges(), []
    for batch in batches:
        builder = RecordBuilder()
        for sequence, offset in batch:
            builder.send(offset, at=offset, producer=1, sequence=sequence)
        rows = [{"topic": "t", "partition": 0, **row} for row in builder.tables["sends"]]
        chosen += row_order.rows_in_order(rows_of("sends", rows), ranges).to_pylist()
    return ranges.are_apart(), len(_decreases(chosen))


def lost_decreases() -> tuple[int, int, int]:
    """Return in how many of 300 histories a decrease is lost; how many rows were left out, and decreases found."""
    dice = random.Random(966)
    lost = left_out = found = 0
    for _ in range(300):
        rows = _sends(dice)
        acked = [row for row in rows if row["status"] == "acked"]
        ranges, chosen = row_order.SequenceRanges(), []
        first = 0
        while first < len(rows):
            some = rows[first : first + dice.randrange(1, 40)]
            first += len(some)
            if dice.random() < 0.5:
                dice.shuffle(some)
            chosen += row_order.rows_in_order(rows_of("sends", some), ranges).to_pylist()
        if ranges.are_apart():
            lost += _decreases(chosen) != _decreases(acked)
            left_out += len(acked) - len(chosen)
            found += len(_decreases(acked))
    return lost, left_out, found


def _sends(dice: random.Random) -> list[dict[str, Any]]:
    offsets, step = list(range(dice.randrange(1, 80))), dice.choice([1, 1, 2])
    for _ in range(dice.randrange(4)):
        at = dice.randrange(len(offsets))
        offsets[at] = offsets[dice.randrange(len(offsets))]
    builder = RecordBuilder()
    for sequence, offset in enumerate(offsets):
        status = dice.choice(["acked", "acked", "acked", "failed"])
        producer, partition = dice.choice([1, 2]), dice.choice([0, 0, 1])
        builder.send(
            sequence, at=offset, status=status, producer=producer, partition=partition, sequence=sequence // step
        )
    return [{"topic": "t", "partition": 0, **row} for row in builder.tables["sends"]]


def _decreases(rows: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    """Return what `dirty_order.decreases` returns, of some rows."""
    key = ("topic", "partition", "producer")
    ordered = sorted(tuple(row[name] for name in (*key, "sequence", "offset", "value")) for row in rows)
    return {(before, after) for before, after in pairwise(ordered) if before[:3] == after[:3] and after[4] < before[4]}
