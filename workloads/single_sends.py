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
_NOTHING_DUE = -2
"""Not the offset of any record."""


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
    """One partition, with the sequences that have no answer yet.

    These are `skipped`, and all from `answered_end` on. `due_offset` is the offset with which an ack of `answered_end`
    continues the last run, `_NOTHING_DUE` where none can. `workloads.librdkafka_producer` adds one to both for such an
    ack, and `answer` then extends the run by all of them.
    """

    __slots__ = ("answered_end", "due_offset", "last_run", "skipped")

    def __init__(self, partition: int) -> None:
        super().__init__(partition)
        self.answered_end = 0
        self.skipped: set[int] = set()
        self.due_offset = _NOTHING_DUE
        self.last_run: _AnswerRun | None = None

    def close_sequence(self, sequence: int) -> bool:
        """Note that a record has an answer; returns whether it is its first one."""
        if sequence >= self.next_sequence:
            return False
        if sequence >= self.answered_end:
            self.skipped.update(range(self.answered_end, sequence))
            self.answered_end = sequence + 1
            return True
        if sequence in self.skipped:
            self.skipped.remove(sequence)
            return True
        return False

    def unanswered(self) -> list[int]:
        """Return the sequences that have no answer, in order."""
        return [*sorted(self.skipped), *range(self.answered_end, self.next_sequence)]


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
        return sequence

    def answer(
        self, lane: OpenPartition, sequence: int, outcome: Outcome, offset: int | None, error: str, done_ns: int
    ) -> None:
        """Note the outcome of a record; a second answer of one record changes nothing."""
        self._extend_run(lane, done_ns)
        if not lane.close_sequence(sequence):
            return
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
        is_last = offset is not None and sequence + 1 == lane.answered_end
        lane.due_offset = at + 1 if is_last else _NOTHING_DUE

    def close_runs(self, done_ns: int) -> None:
        """Journal all answers until now with the next flush; `done_ns` is not earlier than those taken as due."""
        for lane in self.lanes:
            self._extend_run(lane, done_ns)
            self._close_run(lane)

    def flush(self) -> None:
        """Journal what happened since the last flush, and count it. Raises `JournalError`."""
        self.close_runs(time.time_ns())
        self._write()

    def abandon(self) -> None:
        """Journal every record without an answer as unknown; call it at the end."""
        self.flush()
        now = time.time_ns()
        for lane in self.lanes:
            for first, count in _consecutive_runs(lane.unanswered()):
                self._append_answer(lane, first, count, "unknown", _NO_OFFSET, UNRESOLVED, now)
            lane.skipped.clear()
            lane.answered_end = lane.next_sequence
        self._write()

    def _extend_run(self, lane: OpenPartition, done_ns: int) -> None:
        """Add the answers that were taken as due to the last run."""
        run = lane.last_run
        if run is not None and lane.due_offset > run.offset + run.count:
            run.count = lane.due_offset - run.offset
            run.done_ns = done_ns

    def _close_run(self, lane: OpenPartition) -> None:
        run, lane.last_run = lane.last_run, None
        lane.due_offset = _NOTHING_DUE
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
