"""Measures how long acks=all producers of a partition waited for an ack, from sends.

The rule: a spell without an ack lies between two successive acks of acks=all records of one
partition, by any producer. It begins at the first of the two acks if a record was waiting then,
otherwise when the next record was handed over. So a slow producer makes no spell, and neither does
a producer that is done. A record waits from `sent_ns` until its answer at `done_ns`, whatever the
answer. If it has no answer, only its sending counts.

The first spell begins with the first record. The last spell is open if records were handed over or
answered after the last ack, none with an ack: then nothing shows how long the service was missing.

Why it is exact: records are folded into cells of `CELL_NS` by the time of their answers. Of each
cell the first and the last ack remain. A spell longer than a cell has its two acks in different
cells, so both remain. Spells of at most a cell are not told apart, and a record that failed in the
same cell as the ack before the spell does not count as waiting.

The table grows with the run, and is read as a stream. Memory grows with the length of the run in
cells and with the number of partitions, not with the number of records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from analysis.judge.history.batches import batches
from analysis.judge.history.leader_gaps import Spell
from analysis.judge.history.timeline import TopicPartition
from ebbtide.record.manifest import ACKS

CELL_NS = 100_000_000
"""Spells without an ack are exact from this length on."""

_FOLD_AT_ROWS = 100_000
_KEYS = ["topic", "partition", "cell"]
_AGGREGATES = (("first_ack", "min"), ("last_ack", "max"), ("sent", "min"), ("answered", "max"), ("is_back", "max"))


class _Cell(msgspec.Struct, frozen=True):
    """The records of a partition whose answers came within one cell.

    `first_ack` and `last_ack` are null without an ack; `sent` is the first time at which one of the
    records was handed over, `answered` the last time at which one was answered. `is_back`: one was answered
    before it was handed over.
    """

    first_ack: int | None
    last_ack: int | None
    sent: int
    answered: int
    is_back: bool


def ack_spells(record: Path) -> Mapping[TopicPartition, list[Spell] | str]:
    """Return the spells without an ack of each partition that acks=all records were sent to.

    A text instead says why they are not known. Of all spells of at most `CELL_NS`, there is only
    the first. Raises `UsageError` when a file is damaged.
    """
    return {place: _spells(cells) for place, cells in _cells(record)}


def _spells(cells: Sequence[_Cell]) -> list[Spell] | str:
    if any(one.is_back for one in cells):
        return "the clients' clock went back"
    # The first sending of all records that were answered in this cell or later.
    waiting = list(accumulate(reversed([one.sent for one in cells]), min))[::-1]
    found: list[Spell] = []
    last_ack, begin = None, 0
    for at, cell in enumerate(cells):
        if cell.first_ack is None or cell.last_ack is None:
            continue
        from_ns = waiting[begin] if last_ack is None else max(last_ack, waiting[begin])
        if cell.first_ack - from_ns > CELL_NS or not found:
            found.append(Spell(from_ns=min(from_ns, cell.first_ack), to_ns=cell.first_ack))
        last_ack, begin = cell.last_ack, at + 1
    end = max(one.answered for one in cells)
    if last_ack is None:
        found.append(Spell(from_ns=waiting[0], to_ns=end, is_open=True))
    elif end > last_ack:
        from_ns = max(last_ack, waiting[begin]) if begin < len(cells) else last_ack
        found.append(Spell(from_ns=from_ns, to_ns=end, is_open=True))
    return found


def _cells(record: Path) -> Iterator[tuple[TopicPartition, list[_Cell]]]:
    """Yield the cells of each partition by time."""
    kept: list[pa.Table] = []
    waiting = 0
    columns = ["topic", "partition", "status", "sent_ns", "done_ns"]
    for batch in batches(record, "sends", columns, pc.field("acks") == ACKS["all"]):
        kept.append(_folded(_rows(batch)))
        waiting += kept[-1].num_rows
        if waiting > _FOLD_AT_ROWS:
            kept = [_folded(pa.concat_tables(kept))]
            waiting = 0
    if not kept:
        return
    folded = _folded(pa.concat_tables(kept)).sort_by([(key, "ascending") for key in _KEYS])
    of_place: list[_Cell] = []
    place: TopicPartition | None = None
    for batch in folded.to_batches(max_chunksize=_FOLD_AT_ROWS):
        for row in batch.to_pylist():
            if place is not None and place != (row["topic"], row["partition"]):
                yield place, of_place
                of_place = []
            place = (row["topic"], row["partition"])
            of_place.append(_Cell(*(row[name] for name, _ in _AGGREGATES)))
    if place is not None:
        yield place, of_place


def _rows(batch: pa.RecordBatch) -> pa.Table:
    answered = pc.coalesce(batch["done_ns"], batch["sent_ns"])
    acked = pc.if_else(pc.equal(batch["status"], "acked"), answered, pa.scalar(None, pa.int64()))
    return pa.table(
        {
            "topic": batch["topic"],
            "partition": batch["partition"],
            "cell": pc.divide(answered, CELL_NS),
            "first_ack": acked,
            "last_ack": acked,
            "sent": batch["sent_ns"],
            "answered": answered,
            "is_back": pc.less(answered, batch["sent_ns"]),
        }
    )


def _folded(rows: pa.Table) -> pa.Table:
    """Return one row for each cell of each partition."""
    folded = rows.group_by(_KEYS).aggregate(list(_AGGREGATES))
    names = {f"{name}_{function}": name for name, function in _AGGREGATES}
    return folded.rename_columns([names.get(name, name) for name in folded.column_names]).select(
        [*_KEYS, *(name for name, _ in _AGGREGATES)]
    )
