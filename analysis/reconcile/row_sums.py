"""Sums up batches of rows by blocks of offsets and of values, as NumPy arrays.

The sums mean what those of the modules blocks, replica_blocks and narrowing mean, of the rows of
one batch: a block has a sum for each batch with rows of it. Adding sums up is Spark's (the module
row_pass). The hash is another one than Spark's, with a seed of its own for each pass, so the two are
never compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from analysis.reconcile.row_batches import Bools, Ints, Rows, UnsuitedRows

BITS = 6
NO_EPOCH = -(2**31)
ACKED, FAILED, HIDDEN, FINAL, READ, READ_COMMITTED = range(6)
"""What the rows of a block of values are; see `narrowing.suspect_values`."""

_ROWS_OF_A_SUM = 8
"""Rows that lie in another order are sorted first if their blocks would get less rows a sum than so many."""
_NONE = np.int64(2**63 - 1)


def hashed(seed: int, *numbers: Ints, unknown: Bools | None = None) -> Ints:
    """Return a 64-bit hash of each row; `unknown`: the rows whose last number is null."""
    found = np.full(len(numbers[0]), seed, np.uint64)
    for place, number in enumerate(numbers):
        found ^= number.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        if unknown is not None and place == len(numbers) - 1:
            found[unknown] += np.uint64(0xD6E8FEB86659FD93)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            found ^= found >> np.uint64(shift)
            found *= np.uint64(factor)
        found ^= found >> np.uint64(31)
    mixed: Ints = found.view(np.int64)
    return mixed


def bit_of(numbers: Ints) -> Ints:
    """Return the bit of each number in the mask of its block."""
    bits: Ints = np.left_shift(np.uint64(1), (numbers & (2**BITS - 1)).view(np.uint64)).view(np.int64)
    return bits


class Groups:
    """The rows of a batch in groups with equal keys; a key may have several groups.

    Rows that lie together are one group. Where that makes too many groups, the rows are sorted.
    """

    def __init__(self, keys: Sequence[Ints], *, is_sorted: bool = False) -> None:
        self._order: Ints | None = None
        self.count = len(keys[0])
        self.starts = _starts(keys)
        if not is_sorted and len(self.starts) * _ROWS_OF_A_SUM > self.count:
            self._order = np.lexsort(keys[::-1])
            self.starts = _starts([key[self._order] for key in keys])
        self.rows: Ints = np.diff(self.starts, append=self.count)

    def in_order(self, column: Ints) -> Ints:
        """Return a column of the rows in the order of the groups."""
        return column if self._order is None else column[self._order]

    def first(self, column: Ints) -> Ints:
        """Return the value of a column that all rows of a group share."""
        return self.in_order(column)[self.starts]

    def over(self, function: np.ufunc, column: Ints) -> Ints:
        """Return what `function` makes of each group's numbers."""
        found: Ints = function.reduceat(self.in_order(column), self.starts)
        return found

    def counted(self, which: Bools) -> Ints:
        """Return how many of each group's rows are among `which`."""
        if which.all():
            return self.rows
        if not which.any():
            return np.zeros(len(self.starts), np.int64)
        return self.over(np.add, which.astype(np.int64))


def _starts(keys: Sequence[Ints]) -> Ints:
    changes = np.ones(len(keys[0]), np.bool_)
    changes[1:] = False
    for key in keys:
        changes[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(changes)


def _summary(groups: Groups, hashes: Ints, bits: Ints, prefix: str, among: Bools | None = None) -> dict[str, Ints]:
    """Return the summary of the rows among `among`, in the words of the module blocks."""
    rows = groups.rows
    if among is not None and not among.all():
        rows = groups.counted(among)
        hashes, bits = np.where(among, hashes, 0), np.where(among, bits, 0)
    return {
        f"{prefix}_rows": rows,
        f"{prefix}_mask": groups.over(np.bitwise_or, bits),
        f"{prefix}_xor": groups.over(np.bitwise_xor, hashes),
        f"{prefix}_sum": groups.over(np.add, hashes >> 24),
    }


def _place(groups: Groups, rows: Rows, topics: tuple[Ints, list[str]], partition: Ints) -> dict[str, pa.Array]:
    codes, words = topics
    return {
        "run": pa.array(np.full(len(groups.starts), rows.run, np.int32)),
        "topic": pa.array(words, pa.string()).take(pa.array(groups.first(codes))),
        "partition": pa.array(groups.first(partition), pa.int32()),
    }


def sum_sends(rows: Rows, seed: int) -> pa.Table:
    """Return the sums of `blocks.send_blocks`; no row may have been deleted on purpose."""
    topics, (status, statuses) = rows.words("topic"), rows.words("status")
    partition, offset, value = (rows.numbers(name) for name in ("partition", "offset", "value"))
    has_offset, placed = rows.known("offset"), placed_sends(rows)
    hidden, aborted, in_txn = hidden_sends(rows), rows.where_word("txn_outcome", "aborted"), _transactional(rows)
    block = np.where(placed, offset >> BITS, -1)
    groups = Groups([status, topics[0], partition, block])
    bits = np.where(has_offset, bit_of(offset), 0)
    hashes = hashed(seed, offset, value)
    blocks, first = groups.first(block), groups.over(np.minimum, np.where(has_offset, offset, _NONE))
    return pa.table(
        _place(groups, rows, topics, partition)
        | {
            "status": pa.array(statuses, pa.string()).take(pa.array(groups.first(status))),
            "block": pa.array(blocks, mask=blocks < 0),
        }
        | _summary(groups, hashes, bits, "all")
        | _summary(groups, hashes, bits, "shown", ~hidden)
        | {
            "placed": groups.counted(has_offset),
            "aborted": groups.counted(aborted),
            "in_txn": groups.counted(in_txn),
            "answered": groups.counted(rows.numbers("acks") != 0),
            "first": pa.array(first, mask=groups.counted(has_offset) == 0),
        }
    )


def sum_polls(rows: Rows, seed: int) -> pa.Table:
    """Return the sums of `blocks.poll_blocks`."""
    topics, partition, offset = rows.words("topic"), rows.numbers("partition"), rows.numbers("offset")
    if (offset < 0).any():
        raise UnsuitedRows("offset below 0")
    rows.refuse_other_words("isolation", ("read_committed", "read_uncommitted"))
    committed = rows.where_word("isolation", "read_committed").astype(np.int64)
    consumer, session, before = (rows.numbers(name) for name in ("consumer", "session", "prev_offset"))
    has_value, has_before = rows.known("value"), rows.known("prev_offset")
    epoch = np.where(rows.known("leader_epoch"), rows.numbers("leader_epoch"), NO_EPOCH)
    block = offset >> BITS
    groups = Groups([topics[0], partition, consumer, session, committed, block])
    consumers = groups.first(consumer)
    is_final = np.zeros(len(consumers), np.bool_) if rows.final is None else consumers == rows.final
    return pa.table(
        _place(groups, rows, topics, partition)
        | {
            "consumer": pa.array(consumers, pa.int32()),
            "session": pa.array(groups.first(session), pa.int32()),
            "final": pa.array(is_final),
            "read_committed": pa.array(groups.first(committed) == 1),
            "block": groups.first(block),
        }
        | _summary(groups, hashed(seed, offset, rows.numbers("value"), unknown=~has_value), bit_of(offset), "all")
        | {
            "first": groups.over(np.minimum, offset),
            "last": groups.over(np.maximum, offset),
            "oldest": pa.array(groups.over(np.minimum, epoch), pa.int32()),
            "newest": pa.array(groups.over(np.maximum, epoch), pa.int32()),
            "damaged": groups.counted(~has_value),
            "back": groups.counted(has_before & (offset <= before)),
            "jumped": groups.counted(has_before & (offset - 1 > before)),
            "chained": groups.counted(has_before),
        }
    )


def sum_replicas(rows: Rows, seed: int, checkpoints: Mapping[tuple[int, str, int, int], int]) -> pa.Table:
    """Return the sums of the rows below each replica's checkpoint, by (run, topic, partition, broker)."""
    topics, partition, broker = rows.words("topic"), rows.numbers("partition"), rows.numbers("broker")
    offset = rows.numbers("offset")
    below = np.zeros(rows.count, np.bool_)
    for (topic, number, replica), here in rows.parts("partition", "broker"):
        checkpoint = checkpoints.get((rows.run, topic, number, replica))
        if checkpoint is not None:
            below[here] = offset[here] < checkpoint
    block = offset >> BITS
    epoch, value = rows.numbers("leader_epoch"), rows.numbers("value")
    hashes = hashed(seed, offset, epoch, value, unknown=~rows.known("value"))
    groups = Groups([topics[0], partition, broker, block])
    summed = pa.table(
        _place(groups, rows, topics, partition)
        | {"broker": pa.array(groups.first(broker), pa.int32()), "block": groups.first(block)}
        | _summary(groups, hashes, np.zeros(rows.count, np.int64), "all", below)
    )
    return summed if below.all() else summed.filter(pa.array(summed["all_rows"].to_numpy() > 0))


def placed_sends(rows: Rows) -> Bools:
    """Return which rows of sends put their value at an offset."""
    rows.refuse_other_words("txn_outcome", ("committed", "aborted", "unknown"))
    placed: Bools = rows.where_word("status", "acked") & rows.known("offset")
    if (rows.numbers("offset")[placed] < 0).any():
        raise UnsuitedRows("offset below 0")
    return placed


def _transactional(rows: Rows) -> Bools:
    return rows.known("txn") | rows.known("txn_outcome")


def hidden_sends(rows: Rows) -> Bools:
    """Return which rows of sends are of a transaction not known to be committed."""
    hidden: Bools = _transactional(rows) & ~rows.where_word("txn_outcome", "committed")
    return hidden


def sum_values(run: int, values: Mapping[int, Ints]) -> pa.Table:
    """Return the sums of blocks of values, of each kind of rows."""
    tables = []
    for kind, some in values.items():
        if len(some):
            in_order = np.sort(some)
            groups = Groups([in_order >> BITS], is_sorted=True)
            tables.append(
                pa.table(
                    {
                        "run": pa.array(np.full(len(groups.starts), run, np.int32)),
                        "values": groups.first(in_order) >> BITS,
                        "kind": pa.array(np.full(len(groups.starts), kind, np.int8)),
                        "rows": groups.rows,
                        "mask": groups.over(np.bitwise_or, bit_of(in_order)),
                    }
                )
            )
    return pa.concat_tables(tables) if tables else VALUE_SUMS.empty_table()


def added_values(sums: pa.Table) -> pa.Table:
    """Return the sums of blocks of values, those of one block, run and kind added up."""
    run, values, kind, rows, mask = (sums[name].to_numpy().astype(np.int64, copy=False) for name in VALUE_SUMS.names)
    groups = Groups([run, kind, values])
    columns = [groups.first(column) for column in (run, values, kind)]
    columns += [groups.over(np.add, rows), groups.over(np.bitwise_or, mask)]
    arrays = [pa.array(column).cast(field.type) for column, field in zip(columns, VALUE_SUMS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=VALUE_SUMS)


VALUE_SUMS = pa.schema(
    [
        pa.field("run", pa.int32()),
        pa.field("values", pa.int64()),
        pa.field("kind", pa.int8()),
        pa.field("rows", pa.int64()),
        pa.field("mask", pa.int64()),
    ]
)
