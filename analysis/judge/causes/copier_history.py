"""Reads what a record says of copiers of one partition: copies, transactions, and the coordinator's answers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection

import msgspec
import pyarrow.compute as pc

from analysis.reconcile.model import WrongCopies
from analysis.record.files import of_partition
from analysis.record.record import Record
from analysis.record.timeline import Timeline
from ebbtide.record.clients import ClientEvent
from ebbtide.scenario.internal_topics import OFFSETS_PARTITION, OFFSETS_TOPIC


class TxnKey(msgspec.Struct, frozen=True):
    """A transaction of a producer; `txn` None: no row says which one."""

    producer: int
    txn: int | None


class SentCopy(msgspec.Struct, frozen=True, order=True):
    """A copy of an input whose transaction was not aborted.

    `is_certain`: the transaction is committed. Else nobody knows how it ended.
    """

    sent_ns: int
    input: int
    value: int
    of: TxnKey
    is_certain: bool


class CopyingTxn(msgspec.Struct, frozen=True):
    """A transaction with copies: when the first one was sent, and the highest input."""

    sent_ns: int
    highest: int


def read_copies(record: Record, repeated: WrongCopies) -> list[SentCopy]:
    """Return the copies of a partition's inputs, but for those of aborted transactions."""
    columns = ["offset", "producer", "value", "sent_ns"]
    rows = [row for batch in record.batches("copies", columns, _of(repeated)) for row in batch.to_pylist()]
    sent = _sends(record, {row["value"] for row in rows})
    found = []
    for row in rows:
        txn, outcomes = sent.get(row["value"], (None, set()))
        if "aborted" not in outcomes:
            of = TxnKey(row["producer"], txn)
            is_certain = txn is not None and "committed" in outcomes
            found.append(SentCopy(row["sent_ns"], row["offset"], row["value"], of, is_certain))
    return found


def read_shown(record: Record, values: Collection[int]) -> set[int]:
    """Return those of the values that a read_committed consumer got."""
    if not values:
        return set()
    where = (pc.field("isolation") == "read_committed") & pc.field("value").isin(list(values))
    return {row["value"] for batch in record.batches("polls", ["value"], where) for row in batch.to_pylist()}


def transactions_of(copies: Collection[SentCopy]) -> dict[TxnKey, CopyingTxn]:
    """Return the transactions of the copies."""
    found: dict[TxnKey, CopyingTxn] = {}
    for one in copies:
        known = found.get(one.of, CopyingTxn(one.sent_ns, one.input))
        found[one.of] = CopyingTxn(min(known.sent_ns, one.sent_ns), max(known.highest, one.input))
    return found


class TransactionEnds:
    """When each transaction ended, as its producer learned it."""

    def __init__(self, record: Record) -> None:
        self._ends: dict[TxnKey, ClientEvent] = {}
        self._committed: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._others: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for client, events in (record.client_events or {}).items():
            if client.startswith("producer-"):
                self._add(int(client.removeprefix("producer-")), events)
        for ends in (*self._committed.values(), *self._others.values()):
            ends.sort()

    def ended_ns(self, key: TxnKey) -> int | None:
        """Return when the transaction ended, in whichever way."""
        event = self._ends.get(key)
        return None if event is None else event.at_ns

    def committed_ns(self, key: TxnKey) -> int | None:
        """Return when its producer learned that it is committed."""
        event = self._ends.get(key)
        return event.at_ns if event is not None and event.outcome == "committed" else None

    def next_committed_ns(self, producer: int, txn: int) -> int | None:
        """Return when the producer learned that its next committed transaction is committed."""
        ends = self._committed[producer]
        at = bisect_right(ends, txn, key=lambda one: one[0])
        return ends[at][1] if at < len(ends) else None

    def last_not_committed_ns(self, producer: int, txn: int) -> int | None:
        """Return when the last earlier transaction ended that the producer does not know to be committed."""
        ends = self._others[producer]
        at = bisect_left(ends, txn, key=lambda one: one[0])
        return ends[at - 1][1] if at else None

    def _add(self, producer: int, events: Collection[ClientEvent]) -> None:
        for event in events:
            if event.event == "transaction" and event.txn is not None:
                self._ends[TxnKey(producer, event.txn)] = event
                ends = self._committed if event.outcome == "committed" else self._others
                ends[producer].append((event.txn, event.at_ns))


class ShownOffset(msgspec.Struct, frozen=True):
    """What the leader of the group's partition showed under a leader epoch: an offset, or nothing."""

    asked_ns: int
    done_ns: int
    offset: int | None
    broker: int
    leader_epoch: int


class ShownOffsets:
    """The coordinator's answers in order: those of brokers that led from the question to the answer."""

    def __init__(self, record: Record, timeline: Timeline, repeated: WrongCopies) -> None:
        self._all: list[ShownOffset] = []
        where = _of(repeated) & (pc.field("status") == "served") & pc.field("done_ns").is_valid()
        for batch in record.batches("commits", ["asked_ns", "done_ns", "offset", "broker"], where):
            for row in batch.to_pylist():
                asked, done = (
                    timeline.state_at_time(OFFSETS_TOPIC, OFFSETS_PARTITION, row[name])
                    for name in ("asked_ns", "done_ns")
                )
                if asked is not None and asked is done and asked.leader == row["broker"]:
                    self._all.append(ShownOffset(**row, leader_epoch=asked.leader_epoch))
        self._all.sort(key=lambda one: (one.asked_ns, one.done_ns))
        self._shown = [-1 if one.offset is None else one.offset for one in self._all]
        self._last_higher = _last_higher(self._shown)

    def between(self, from_ns: int, to_ns: int) -> range:
        """Return which answers were asked for from the first time on, and came by the second one."""
        end = bisect_right(self._all, to_ns, key=lambda one: one.asked_ns)
        begin = bisect_left(self._all, from_ns, key=lambda one: one.asked_ns)
        while end > begin and self._all[end - 1].done_ns > to_ns:
            end -= 1
        return range(begin, max(begin, end))

    def last_above(self, among: range, offset: int) -> int | None:
        """Return which of these answers is the last one that shows more than the offset."""
        at = among.stop - 1
        while at >= among.start and self._shown[at] <= offset:
            at = self._last_higher[at]
        return at if at >= among.start else None

    def __getitem__(self, at: int) -> ShownOffset:
        return self._all[at]


def _last_higher(shown: list[int]) -> list[int]:
    """Return for each offset which earlier one is the last that is higher; -1: none."""
    found: list[int] = []
    for at, offset in enumerate(shown):
        higher = at - 1
        while higher >= 0 and shown[higher] <= offset:
            higher = found[higher]
        found.append(higher)
    return found


def _of(repeated: WrongCopies) -> pc.Expression:
    return (pc.field("group") == repeated.group) & of_partition(repeated.topic, repeated.partition)


def _sends(record: Record, values: Collection[int]) -> dict[int, tuple[int | None, set[str | None]]]:
    """Return the transaction of each value, and how it ended by its rows."""
    outcomes: dict[int, set[str | None]] = defaultdict(set)
    txns: dict[int, int | None] = {}
    where = pc.field("value").isin(list(values))
    for batch in record.batches("sends", ["value", "txn", "txn_outcome"], where):
        for row in batch.to_pylist():
            outcomes[row["value"]].add(row["txn_outcome"])
            txns[row["value"]] = row["txn"]
    return {value: (txns[value], outcomes[value]) for value in txns}
