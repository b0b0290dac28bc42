"""The account of one producer, whatever its client: what was handed over, and how it ended, journalled.

Only the thread that sends touches an account. `workloads.producer` is the account of kafka-python's batches,
`workloads.single_sends` that of clients that answer each record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from typing import Generic, TypeVar

import msgspec

from ebbtide.journal.file import JournalWriter
from ebbtide.journal.frames import (
    STATUSES,
    AnsweredSends,
    pack_answered,
    pack_event,
    pack_handed,
    pack_txn_begun,
    pack_txn_ended,
)
from ebbtide.journal.outcomes import Outcome
from ebbtide.record.clients import ClientEvent, TxnOutcome
from workloads.process import StatusFile

COUNTERS = ("handed", "acked", "failed", "unknown")
"""The status slots of one partition, in this order; partition p starts at slot `len(COUNTERS) * p`."""


class SendCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of sends: handed over, and of these acked, failed and unknown."""

    handed: int = 0
    acked: int = 0
    failed: int = 0
    unknown: int = 0

    def __add__(self, other: SendCounts) -> SendCounts:
        """Return the sums."""
        return SendCounts(**{name: getattr(self, name) + getattr(other, name) for name in COUNTERS})

    def abandoned(self) -> SendCounts:
        """Return the counts of a producer that has ended: what has no answer is unknown."""
        return msgspec.structs.replace(self, unknown=self.handed - self.acked - self.failed)


def counts_in(status: StatusFile | None, partitions: int) -> SendCounts:
    """Return what a producer counted in its status file, on this many partitions; nothing before it has made one."""
    totals = dict.fromkeys(COUNTERS, 0)
    if status is not None:
        for number in range(partitions):
            for slot, name in enumerate(COUNTERS, len(COUNTERS) * number):
                totals[name] += status.get(slot)
    return SendCounts(**totals)


class SentPartition:
    """One partition: the next sequence, and the rows that are not written yet."""

    __slots__ = ("counts", "first_unwritten", "next_sequence", "partition", "rows")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.next_sequence = 0
        self.first_unwritten = 0
        self.rows = array("q")
        self.counts = dict.fromkeys(COUNTERS, 0)


Lane = TypeVar("Lane", bound=SentPartition)


class SendAccount(ABC, Generic[Lane]):
    """The partitions, the frames that are not written yet, and the counters of one producer.

    Sequences count from 0 in each process; the journal has them from the first number of the client's life on.
    """

    def __init__(self, journal: JournalWriter, status: StatusFile, lanes: list[Lane]) -> None:
        self.lanes = lanes
        self._journal = journal
        self._status = status
        self._frames: list[bytes] = []
        self.answered_count = 0
        """How many records have an outcome."""

    @abstractmethod
    def flush(self) -> None:
        """Journal what happened since the last flush, and count it. Raises `JournalError`."""

    @abstractmethod
    def abandon(self) -> None:
        """Journal every record without an answer as unknown; call it at the end."""

    @property
    def outstanding_count(self) -> int:
        """How many records were handed over and have no outcome, as of the last flush."""
        return sum(2 * lane.counts["handed"] - sum(lane.counts.values()) for lane in self.lanes)

    @property
    def acked_count(self) -> int:
        """How many records were acked, as of the last flush."""
        return sum(lane.counts["acked"] for lane in self.lanes)

    def begin_txn(self, txn: int) -> None:
        """Journal that the records handed over from now on belong to `txn`."""
        first = self._journal.first_number
        self._frames.append(pack_txn_begun(txn, array("q", [first + lane.next_sequence for lane in self.lanes])))

    def end_txn(self, txn: int, outcome: TxnOutcome) -> None:
        """Journal that a transaction ended."""
        self._frames.append(pack_txn_ended(txn, outcome))

    def journal_event(self, event: ClientEvent) -> None:
        """Journal an event that is not a row."""
        self._frames.append(pack_event(event))

    def _append_answer(
        self, lane: SentPartition, first: int, count: int, outcome: Outcome, base: int, error: str, done_ns: int
    ) -> None:
        lane.counts[outcome] += count
        self.answered_count += count
        answer = AnsweredSends(
            partition=lane.partition,
            first_sequence=self._journal.first_number + first,
            count=count,
            status=STATUSES.index(outcome),
            base_offset=base,
            done_ns=done_ns,
            error=error,
        )
        self._frames.append(pack_answered(answer))

    def _write(self) -> None:
        handed, first = [], self._journal.first_number
        for lane in self.lanes:
            if lane.rows:
                handed.append(pack_handed(lane.partition, first + lane.first_unwritten, lane.rows))
                lane.first_unwritten = lane.next_sequence
                lane.rows = array("q")
                lane.counts["handed"] = lane.next_sequence
        if handed or self._frames:
            # Frames go first: a row before the beginning of its transaction would be outside of any transaction.
            self._journal.write(self._frames + handed)
            self._frames = []
            # Counted only now: every counted record is in the journal.
            for lane in self.lanes:
                for slot, name in enumerate(COUNTERS, len(COUNTERS) * lane.partition):
                    self._status.put(slot, lane.counts[name])
