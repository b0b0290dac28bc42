"""The account of a producer whose client answers each record: librdkafka, and Kafka's own Java tool.

Consecutive records with consecutive offsets, answered at the same time, share one frame of the journal.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec

from ebbtide.journal.file import JournalWriter
from ebbtide.journal.outcomes import UNRESOLVED, Outcome
from workloads.send_account import SendAccount, SentPartition
from workloads.status import StatusFile

_SAME_TIME_NS = 5_000_000
"""Answers that came within 5 ms of each other count as one; the client reports a whole batch at once."""
_NO_OFFSET = -1


class _AnswerRun(msgspec.Struct, kw_only=True):
    """Answers of consecutive records that fit into one frame; `offset` is the first one's, -1 for none.

    `begun_ns` is the time of the first answer, `done_ns` that of the last one.
    """

    first: int
    count: int
    outcome: Outcome
    offset: int
    error: str
    begun_ns: int
    done_ns: int

    def take(self, sequence: int, outcome: Outcome, offset: int, error: str, done_ns: int) -> bool:
        """Add one more answer if it continues this run; returns whether it did."""
        offset_due = _NO_OFFSET if self.offset == _NO_OFFSET else self.offset + self.count
        fits = (
            sequence == self.first + self.count
            and (outcome, error) == (self.outcome, self.error)
            and offset == offset_due
            and done_ns - self.begun_ns <= _SAME_TIME_NS
        )
        if fits:
            self.count += 1
            self.done_ns = done_ns
        return fits


class OpenPartition(SentPartition):
    """One partition, with the sequences that have no answer yet."""

    __slots__ = ("last_run", "unanswered")

    def __init__(self, partition: int) -> None:
        super().__init__(partition)
        self.unanswered: set[int] = set()
        self.last_run: _AnswerRun | None = None


class SingleSends(SendAccount[OpenPartition]):
    """Partitions, answers and the journal of one producer."""

    def __init__(self, journal: JournalWriter, status: StatusFile, partitions: int) -> None:
        super().__init__(journal, status, [OpenPartition(partition) for partition in range(partitions)])

    def hand_over(self, lane: OpenPartition, value: int, sent_ns: int) -> int:
        """Note a record that is handed over to the client; returns its sequence."""
        sequence = lane.next_sequence
        lane.rows.append(value)
        lane.rows.append(sent_ns)
        lane.next_sequence = sequence + 1
        lane.unanswered.add(sequence)
        return sequence

    def answer(
        self, lane: OpenPartition, sequence: int, outcome: Outcome, offset: int | None, error: str, done_ns: int
    ) -> None:
        """Note the outcome of a record; a second answer of one record changes nothing."""
        if sequence not in lane.unanswered:
            return
        lane.unanswered.discard(sequence)
        at = _NO_OFFSET if offset is None else offset
        if lane.last_run is None or not lane.last_run.take(sequence, outcome, at, error, done_ns):
            self._close_run(lane)
            lane.last_run = _AnswerRun(
                first=sequence,
                count=1,
                outcome=outcome,
                offset=at,
                error=error,
                begun_ns=done_ns,
                done_ns=done_ns,
            )

    def flush(self) -> None:
        """Journal what happened since the last flush, and count it. Raises `JournalError`."""
        for lane in self.lanes:
            self._close_run(lane)
        self._write()

    def abandon(self) -> None:
        """Journal every record without an answer as unknown; call it at the end."""
        self.flush()
        now = time.time_ns()
        for lane in self.lanes:
            for first, count in _consecutive_runs(sorted(lane.unanswered)):
                self._append_answer(lane, first, count, "unknown", _NO_OFFSET, UNRESOLVED, now)
            lane.unanswered.clear()
        self._write()

    def _close_run(self, lane: OpenPartition) -> None:
        run, lane.last_run = lane.last_run, None
        if run is not None:
            self._append_answer(lane, run.first, run.count, run.outcome, run.offset, run.error, run.done_ns)


def _consecutive_runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first number and the length of each run of consecutive numbers."""
    first, count = 0, 0
    for number in numbers:
        if count and number == first + count:
            count += 1
            continue
        if count:
            yield first, count
        first, count = number, 1
    if count:
        yield first, count
