"""Sums up what clients wrote down of one run: its sends and its polls.

The rows of a source in a block of 64 offsets are one sum (the module buckets). A source is the acks, the acks of what a
read_committed consumer may not get, or one consumer's session. Sources with equal sums hold the same values at the same
offsets, so their rows are not compared one by one.

The hashes: `xor` and `sum` of one 64-bit hash of (offset, value), whose seed is drawn for each run. Two different
sets of rows look the same with a chance below 2^-64. A row that a source has twice cancels out of `xor`. The `sum`
shows it, and a block with two rows at one offset never agrees.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from analysis.record.groups import BITS, Bools, Groups, Ints, added_up, bit_of, hashed, parts_of
from analysis.record.scans import Rows
from analysis.rows.buckets import BLOCK_SUM, VALUE_SUM, SumStore
from analysis.rows.deletions import CLOCK_NS, Deletion
from analysis.rows.facts import PollFacts, SendFacts

ACKS, HIDDEN_ACKS = 0, 1
"""The sources that are no session."""
NO_EPOCH = -(2**31)
ACKED, FAILED, HIDDEN, ABORTED, FINAL, READ, READ_COMMITTED = range(7)
"""What the rows of a block of values are."""

_NONE = 2**63 - 1
_SENDS = ("topic", "partition", "value", "producer", "sequence", "acks", "status", "offset", "txn", "txn_outcome")
_TIMES = ("sent_ns", "done_ns")
_POLLS = (
    *("topic", "partition", "offset", "value", "consumer", "session"),
    *("prev_offset", "leader_epoch", "isolation"),
)


class ConsumerSession(NamedTuple):
    """A session of a consumer on one partition."""

    topic: str
    partition: int
    consumer: int
    session: int
    read_committed: bool
    final: bool


class ClientSums:
    """The sums of a run's sends and polls, and the facts of its partitions."""

    def __init__(self, deletions: Sequence[Deletion], folder: Callable[[], Path]) -> None:
        """`deletions`: what steps deleted on purpose."""
        self._deletions = deletions
        self.columns = {"sends": (*_SENDS, *_TIMES) if deletions else _SENDS, "polls": _POLLS}
        self.blocks = SumStore(BLOCK_SUM, folder)
        self.values = SumStore(VALUE_SUM, folder)
        self.sources: list[ConsumerSession | None] = [None, None]
        self.first_offsets: dict[int, int] = {}
        self._numbers: dict[ConsumerSession, int] = {}
        self._sends: dict[tuple[str, int, str], dict[str, int]] = {}
        self._polls: dict[tuple[str, int, bool, bool], dict[str, int]] = {}
        self._doubted: list[Ints] = []
        self._seed = secrets.randbits(63)
        self._lock = Lock()

    @property
    def sends(self) -> list[SendFacts]:
        """The facts of the sends."""
        return [
            SendFacts(topic=topic, partition=partition, status=status, **_with_nulls(counts, "first_offset"))
            for (topic, partition, status), counts in self._sends.items()
        ]

    @property
    def polls(self) -> list[PollFacts]:
        """The facts of the polls."""
        return [
            PollFacts(topic=topic, partition=partition, final=final, read_committed=committed, **counts)
            for (topic, partition, final, committed), counts in self._polls.items()
        ]

    @cached_property
    def session_flags(self) -> tuple[Bools, Bools]:
        """Which sources are sessions of the final read, and which are read_committed; polls are summed up by then."""
        final = np.array([one is not None and one.final for one in self.sources])
        return final, np.array([one is not None and one.read_committed for one in self.sources])

    def add_sends(self, rows: Rows) -> None:
        """Sum up a batch of sends."""
        (topic, topics), (status, statuses) = rows.words("topic"), rows.words("status")
        partition, offset, value = (rows.numbers(name) for name in ("partition", "offset", "value"))
        has_offset, placed = rows.known("offset"), placed_sends(rows)
        hidden, in_txn, aborted = hidden_sends(rows), _in_transaction(rows), rows.where_word("txn_outcome", "aborted")
        deleted, unsure = _deleted_sends(rows, self._deletions)
        block = np.where(placed, offset >> BITS, -1)
        hashes, bits = hashed(self._seed, offset, value), bit_of(offset)
        groups = Groups([status, topic, partition, block])
        counted = {
            "rows": groups.rows,
            "placed": groups.counted(has_offset),
            "in_txn": groups.counted(in_txn),
            "unplaced": groups.counted((rows.numbers("acks") != 0) & ~placed),
            "unsure": groups.counted(unsure),
            "first_offset": groups.over(np.minimum, np.where(has_offset & ~deleted, offset, _NONE)),
        }
        keys, facts = added_up([groups.first(key) for key in (topic, partition, status)], counted, _BY)
        with self._lock:
            for at, key in enumerate(zip(*(key.tolist() for key in keys), strict=True)):
                place = (topics[key[0]], key[1], statuses[key[2]])
                _add_to(self._sends.setdefault(place, {}), {name: int(of[at]) for name, of in facts.items()})
        self._add_blocks(ACKS, rows, placed, block, hashes, bits)
        if (hidden & placed).any():
            self._add_blocks(HIDDEN_ACKS, rows, hidden & placed, block, hashes, bits)
        failed = rows.where_word("status", "failed")
        for kind, which in ((ACKED, placed), (FAILED, failed), (HIDDEN, hidden), (ABORTED, aborted)):
            self._add_values(kind, value[which])
        if doubted := [np.unique(value[which] >> BITS) for which in (failed, hidden) if which.any()]:
            with self._lock:
                self._doubted += doubted

    def _add_blocks(self, source: int, rows: Rows, which: Bools, block: Ints, hashes: Ints, bits: Ints) -> None:
        """Add the sums of acks, those of `which`."""
        here = slice(None) if which.all() else np.flatnonzero(which)
        keys = [key[here] for key in (rows.words("topic")[0], rows.numbers("partition"), block)]
        if not len(keys[0]):
            return
        groups = Groups(keys)
        of_key = [groups.first(key) for key in keys]
        self._add_sums(rows, of_key, groups, hashes[here], bits[here], {"source": np.full_like(of_key[0], source)})

    def _add_sums(
        self, rows: Rows, keys: list[Ints], groups: Groups, hashes: Ints, bits: Ints, others: dict[str, Ints]
    ) -> None:
        """Add sums by topic, partition and block: `keys`."""
        topics = rows.words("topic")[1]
        columns = others | {
            "block": keys[2],
            "rows": groups.rows,
            "mask": groups.over(np.bitwise_or, bits),
            "xor": groups.over(np.bitwise_xor, hashes),
            "sum": groups.over(np.add, hashes),
        }
        for (topic, partition), here in parts_of(keys[:2]):
            self.blocks.add((topics[topic], partition), **{name: column[here] for name, column in columns.items()})

    @cached_property
    def _doubted_blocks(self) -> Ints:
        """The blocks of values of which a send failed, or may be hidden: only there, reads matter."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *self._doubted]))

    def add_polls(self, rows: Rows) -> None:
        """Sum up a batch of polls; all sends are summed up by then."""
        rows.refuse_negative_offsets()
        committed = rows.where_word("isolation", "read_committed")
        self._add_polls(rows, committed)
        value, known = rows.numbers("value"), rows.known("value")
        self._add_values(FINAL, value[known & rows.is_final()])
        if len(self._doubted_blocks):
            read = known & np.isin(value >> BITS, self._doubted_blocks)
            self._add_values(READ, value[read])
            self._add_values(READ_COMMITTED, value[read & committed])

    def _add_polls(self, rows: Rows, committed: Bools) -> None:
        (topic, topics), partition, offset = rows.words("topic"), rows.numbers("partition"), rows.numbers("offset")
        consumer, session = rows.numbers("consumer"), rows.numbers("session")
        has_value, has_before, final = rows.known("value"), rows.known("prev_offset"), rows.is_final()
        epoch = np.where(rows.known("leader_epoch"), rows.numbers("leader_epoch"), NO_EPOCH)
        keys = [topic, partition, consumer, session, committed.astype(np.int64), final.astype(np.int64), offset >> BITS]
        groups = Groups(keys)
        counted = {
            "rows": groups.rows,
            "first_offset": groups.over(np.minimum, offset),
            "last_offset": groups.over(np.maximum, offset),
            "chained": groups.counted(has_before),
        }
        of_key = [groups.first(key) for key in keys]
        source = np.zeros(len(groups.starts), np.int64)
        for key, here in parts_of(of_key[:6]):
            one = ConsumerSession(topics[key[0]], key[1], key[2], key[3], bool(key[4]), bool(key[5]))
            facts = {name: int(_BY.get(name, np.add).reduce(of[here])) for name, of in counted.items()}
            with self._lock:
                source[here] = number = self._numbers.setdefault(one, len(self.sources))
                if number == len(self.sources):
                    self.sources.append(one)
                self.first_offsets[number] = min(self.first_offsets.get(number, _NONE), facts["first_offset"])
                _add_to(self._polls.setdefault((one.topic, one.partition, one.final, one.read_committed), {}), facts)
        hashes = hashed(self._seed, offset, rows.numbers("value"), unknown=~has_value)
        epochs = {
            "oldest": groups.over(np.minimum, epoch),
            "newest": groups.over(np.maximum, epoch),
            "epochs": groups.over(np.add, hashes * (2 * epoch + 1)),
        }
        self._add_sums(rows, [*of_key[:2], of_key[6]], groups, hashes, bit_of(offset), epochs | {"source": source})

    def _add_values(self, kind: int, values: Ints) -> None:
        if not len(values):
            return
        in_order = values if (np.diff(values) >= 0).all() else np.sort(values)
        groups = Groups([in_order >> BITS], is_sorted=True)
        mask = groups.over(np.bitwise_or, bit_of(in_order))
        block = groups.first(in_order) >> BITS
        self.values.add((), block=block, kind=np.full_like(block, kind), rows=groups.rows, mask=mask)


_BY: dict[str, np.ufunc] = {"first_offset": np.minimum, "last_offset": np.maximum}


_BY_OF_TWO: dict[np.ufunc | None, Callable[[int, int], int]] = {np.minimum: min, np.maximum: max}


def _add_to(counts: dict[str, int], more: dict[str, int]) -> None:
    for name, number in more.items():
        by: Callable[[int, int], int] = _BY_OF_TWO.get(_BY.get(name), int.__add__)
        counts[name] = by(counts[name], number) if name in counts else number


def _with_nulls(counts: dict[str, int], name: str) -> dict[str, Any]:
    return {**counts, name: None if counts[name] == _NONE else counts[name]}


def placed_sends(rows: Rows) -> Bools:
    """Return which rows of sends put their value at an offset."""
    rows.words("txn_outcome")
    acked = rows.where_word("status", "acked")
    placed: Bools = acked & rows.known("offset")
    rows.refuse_negative_offsets(placed)
    return placed


def _in_transaction(rows: Rows) -> Bools:
    return rows.known("txn") | rows.known("txn_outcome")


def hidden_sends(rows: Rows) -> Bools:
    """Return which rows of sends are of a transaction not known to be committed."""
    hidden: Bools = _in_transaction(rows) & ~rows.where_word("txn_outcome", "committed")
    return hidden


def _deleted_sends(rows: Rows, deletions: Sequence[Deletion]) -> tuple[Bools, Bools]:
    """Return which rows were deleted on purpose, and which of them may have been lost before (the module deletions)."""
    deleted, stood = np.zeros(rows.count, np.bool_), np.zeros(rows.count, np.bool_)
    if not deletions:
        return deleted, stood
    sent, done = rows.numbers("sent_ns"), rows.numbers("done_ns")
    in_time, acked = rows.known("offset") & rows.known("sent_ns"), rows.known("done_ns")
    in_acks = rows.numbers("acks") == -1
    for (topic, partition), here in rows.parts("partition"):
        for one in deletions:
            if (one.topic, one.partition) != (topic, partition):
                continue
            gone = in_time[here] & (rows.numbers("offset")[here] < one.log_start) & (sent[here] <= one.answered_ns)
            deleted[here] |= gone
            if one.began_ns is None:
                continue
            in_epoch = gone & acked[here]
            if one.ended_ns is not None:
                in_epoch &= done[here] < one.ended_ns
            if not one.is_first_epoch:
                in_epoch &= in_acks[here] & (sent[here] >= one.began_ns + CLOCK_NS)
            stood[here] |= in_epoch
    return deleted, deleted & ~stood
