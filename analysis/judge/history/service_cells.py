"""Folds what clients asked of each partition into cells of 100 ms, by the time of the answer.

Of each cell the first and the last service remain, and from when until when its questions waited. So memory grows with
the length of the run in cells and with the number of partitions, not with the number of records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from analysis.record.timeline import TopicPartition

CELL_NS = 100_000_000
"""Spells without service are exact from this length on."""

_FOLD_AT_ROWS = 100_000
_KEYS = ["topic", "partition", "cell"]
_AGGREGATES = (
    ("first", "min"),
    ("last", "max"),
    ("asked", "min"),
    ("answered", "max"),
    ("is_back", "max"),
    ("is_sampled", "max"),
)


class ServiceCell(msgspec.Struct, frozen=True):
    """The questions to a partition whose answers came within one cell.

    `first` and `last` service are null if there was none; `asked` is the first time at which one of the questions was
    asked, `answered` the last time at which one was answered. `is_back`: one was answered before it was asked.
    `is_sampled`: the sampler got one of the answers.
    """

    first: int | None
    last: int | None
    asked: int
    answered: int
    is_back: bool
    is_sampled: bool


def question_rows(
    batch: pa.RecordBatch, asked: pa.Array, answered: pa.Array, is_service: pa.Array, *, is_sampled: bool = False
) -> pa.Table:
    """Return rows to fold: who was asked, when, when an answer came, and whether it was a service."""
    served = pc.if_else(is_service, answered, pa.scalar(None, pa.int64()))
    return pa.table(
        {
            "topic": batch["topic"],
            "partition": batch["partition"],
            "cell": pc.divide(answered, CELL_NS),
            "first": served,
            "last": served,
            "asked": asked,
            "answered": answered,
            "is_back": pc.less(answered, asked),
            "is_sampled": pa.repeat(is_sampled, batch.num_rows),
        }
    )


def cells_of(tables: Iterable[pa.Table]) -> Iterator[tuple[TopicPartition, list[ServiceCell]]]:
    """Yield the cells of each partition by time, from tables as `question_rows` returns them."""
    kept: list[pa.Table] = []
    waiting = 0
    for rows in tables:
        kept.append(_folded(rows))
        waiting += kept[-1].num_rows
        if waiting > _FOLD_AT_ROWS:
            kept = [_folded(pa.concat_tables(kept))]
            waiting = 0
    if not kept:
        return
    folded = _folded(pa.concat_tables(kept)).sort_by([(key, "ascending") for key in _KEYS])
    of_place: list[ServiceCell] = []
    place: TopicPartition | None = None
    for batch in folded.to_batches(max_chunksize=_FOLD_AT_ROWS):
        for row in batch.to_pylist():
            if place is not None and place != (row["topic"], row["partition"]):
                yield place, of_place
                of_place = []
            place = (row["topic"], row["partition"])
            of_place.append(ServiceCell(*(row[name] for name, _ in _AGGREGATES)))
    if place is not None:
        yield place, of_place


def _folded(rows: pa.Table) -> pa.Table:
    """Return one row for each cell of each partition."""
    folded = rows.group_by(_KEYS).aggregate(list(_AGGREGATES))
    names = {f"{name}_{function}": name for name, function in _AGGREGATES}
    return folded.rename_columns([names.get(name, name) for name in folded.column_names]).select(
        [*_KEYS, *(name for name, _ in _AGGREGATES)]
    )
