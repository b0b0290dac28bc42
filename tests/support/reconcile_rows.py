"""What NumPy does with rows, and what it must do: for tests and for mutants of these rules.

Functions of the modules are looked up at each call, because a mutant replaces them.
"""

from __future__ import annotations

import random
import tempfile
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
from records import RecordBuilder, as_record

from analysis.judge.rules import registry
from analysis.judge.rules.appends import send_order
from analysis.record.record import Record
from analysis.record.scans import RowGroup, Rows, row_groups
from analysis.record.table_files import TableFile
from analysis.rows import choose, summing
from ebbtide.record.tables import TABLES
from ebbtide.untrusted.parquet import ParquetSource

OVERLAPS: tuple[tuple[tuple[tuple[int, ...], ...], bool], ...] = (
    (((0, 3), (4, 9)), False),
    (((4, 9), (0, 3)), False),
    (((0, 4), (4, 9)), True),
    (((0, 9), (4, 5)), True),
    (((0, 9), (20, 30), (5, 6)), True),
)
"""The sequences of batches of a producer, and whether any two of them overlap."""


def what_differs() -> str | None:
    """Return which rule has a wrong result; None if none has."""
    if any(overlap(batches) != expected for batches, expected in OVERLAPS):
        return "overlapping batches"
    wrong, _, _ = wrong_orders()
    if wrong:
        return "order of sends"
    with tempfile.TemporaryDirectory() as folder:
        chosen, expected = chosen_polls(Path(folder))
    return "chosen polls" if chosen != expected else None


def sum_up(run: Record, folder: Path = Path()) -> summing.SummedRun:
    """Return a run summed up, and the answers to the questions of all kinds."""
    return summing.sum_up(run, 0, lambda: folder, registry.questions())


def rows_of(table: str, rows: list[dict[str, Any]], final: int | None = None) -> Rows:
    """Return rows of a table as one batch."""
    batch = pa.RecordBatch.from_pylist(rows, schema=TABLES[table])
    run = SimpleNamespace(manifest=SimpleNamespace(final_consumer=final))
    file = TableFile(source=ParquetSource(Path("none")), rows=len(rows), columns=frozenset())
    return Rows(batch, RowGroup(cast(Any, run), 0, table, file, 0, cast(Any, None)))


def overlap(batches: tuple[tuple[int, ...], ...]) -> bool:
    """Return whether batches with these sequences are found to overlap."""
    found = send_order.SendOrder()
    for sequences in batches:
        builder = RecordBuilder()
        for sequence in sequences:
            builder.send(sequence, at=sequence, producer=1, sequence=sequence)
        found.add(rows_of("sends", [{"topic": "t", "partition": 0, **row} for row in builder.tables["sends"]]))
    return bool(found.overlapping())


def chosen_polls(folder: Path) -> tuple[list[tuple[int, int | None]], list[tuple[int, int | None]]]:
    """Return the polls that are chosen where no block differs, and those that must be: offsets and previous ones."""
    builder = RecordBuilder()
    for offset, before in ((5, None), (6, 5), (6, 6), (5, 6), (7, 5), (8, 7)):
        builder.read(offset, at=offset, prev_offset=before)
    # The rules need a damaged one too.
    builder.read(None, at=9, prev_offset=8)
    run = as_record(builder.write(folder / "polls"), builder.manifest())
    chosen: list[pa.Table] = []
    nothing = choose.Chosen(choose.OffsetBlocks({}), choose.ValueBlocks(np.zeros(0, np.int64)))
    for group in row_groups(run, 0, "polls"):
        choose._choose(nothing, lambda _, rows: chosen.append(rows), group)
    rows = pa.concat_tables(chosen).to_pylist()
    return [(row["offset"], row["prev_offset"]) for row in rows], [(6, 6), (5, 6), (7, 5), (9, 8)]


def wrong_orders() -> tuple[int, int, int]:
    """Return in how many of 40 histories the pairs out of order are wrong, how many overlap, and how many pairs."""
    dice = random.Random(966)
    wrong = overlapping = found = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(40):
            builder = _sends(dice)
            acked = [row for row in builder.tables["sends"] if row["status"] == "acked"]
            if shuffled := dice.random() < 0.5:
                dice.shuffle(builder.tables["sends"])
            run = as_record(builder.write(Path(folder, str(number))), builder.manifest())
            summed = sum_up(run)
            pairs = {
                (*_key(row), *(one[name] for one in (row["before"], row) for name in ("sequence", "offset", "value")))
                for table in [summed.answers.rows.get(send_order.INVERSIONS.name)]
                if table is not None
                for row in table.to_pylist()
            }
            expected = _decreases([{"topic": "t", "partition": 0, **row} for row in acked])
            wrong += pairs != expected
            found += len(expected)
            overlapping += shuffled
    return wrong, overlapping, found


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["topic"], row["partition"], row["producer"]


def _sends(dice: random.Random) -> RecordBuilder:
    offsets, step = list(range(dice.randrange(1, 80))), dice.choice([1, 1, 2])
    for _ in range(dice.randrange(4)):
        at = dice.randrange(len(offsets))
        offsets[at] = offsets[dice.randrange(len(offsets))]
    builder = RecordBuilder().final(10_000, at=500)
    for sequence, offset in enumerate(offsets):
        status = dice.choice(["acked", "acked", "acked", "failed"])
        producer, partition = dice.choice([1, 2]), dice.choice([0, 0, 1])
        builder.send(
            sequence, at=offset, status=status, producer=producer, partition=partition, sequence=sequence // step
        )
    return builder


def _decreases(rows: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    """Return each acked send whose offset is below that of the one before, and that one before it."""
    names = ("topic", "partition", "producer", "sequence", "offset", "value")
    ordered = sorted(tuple(row[name] for name in names) for row in rows)
    return {
        (*before, *after[3:]) for before, after in pairwise(ordered) if before[:3] == after[:3] and after[4] < before[4]
    }
