"""The account of a producer whose client answers each record: librdkafka, and Kafka's own Java tool.

Consecutive records with consecutive offsets, answered at the same time, share one frame of the journal.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ebbtide import run_clock
from ebbtide.journal.file import JournalWriter
from ebbtide.journal.outcomes import UNRESOLVED, Outcome
from workloads.process import StatusFile
from workloads.send_account import SendAccount, SentPartition

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

    def take(self, first: int, count: int, outcome: Outcome, offset: int, error: str, done_ns: int) -> bool:
        """Add more answers if they continue this run; returns whether they did."""
        offset_due = _NO_OFFSET if self.offset == _NO_OFFSET else self.offset + self.count
        fits = (
            first == self.first + self.count
            and (outcome, error) == (self.outcome, self.error)
            and offset == offset_due
            and done_ns - self.begun_ns <= _SAME_TIME_NS
        )
        if fits:
            self.count += count
            self.done_ns = done_ns
        return fits


class OpenPartition(SentPartition):
    """One partition, with the sequences that have no answer yet.

    These are `skipped`, and all from `answered_end` on.
    """

    __slots__ = ("answered_end", "last_run", "skipped")

    def __init__(self, partition: int) -> None:
        super().__init__(partition)
        self.answered_end = 0
        self.skipped: set[int] = set()
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
        if lane.close_sequence(sequence):
            self._add_run(lane, sequence, 1, outcome, _NO_OFFSET if offset is None else offset, error, done_ns)

    def ack_run(self, lane: OpenPartition, first: int, count: int, offset: int, done_ns: int) -> None:
        """Note acks of consecutive records with consecutive offsets, as `answer` does for each."""
        if lane.answered_end <= first and first + count <= lane.next_sequence:
            lane.skipped.update(range(lane.answered_end, first))
            lane.answered_end = first + count
            self._add_run(lane, first, count, "acked", offset, "", done_ns)
        else:
            for place in range(count):
                self.answer(lane, first + place, "acked", offset + place, "", done_ns)

    def close_runs(self) -> None:
        """Journal all answers until now with the next flush."""
        for lane in self.lanes:
            self._close_run(lane)

    def flush(self) -> None:
        """Journal what happened since the last flush, and count it. Raises `JournalError`."""
        self.close_runs()
        self._write()

    def abandon(self) -> None:
        """Journal every record without an answer as unknown; call it at the end."""
        self.flush()
        now = run_clock.now_ns()
        for lane in self.lanes:
            for first, count in _consecutive_runs(lane.unanswered()):
                self._append_answer(lane, first, count, "unknown", _NO_OFFSET, UNRESOLVED, now)
            lane.skipped.clear()
            lane.answered_end = lane.next_sequence
        self._write()

    def _add_run(
        self, lane: OpenPartition, first: int, count: int, outcome: Outcome, offset: int, error: str, done_ns: int
    ) -> None:
        if lane.last_run is None or not lane.last_run.take(first, count, outcome, offset, error, done_ns):
            self._close_run(lane)
            lane.last_run = _AnswerRun(
                first=first,
                count=count,
                outcome=outcome,
                offset=offset,
                error=error,
                begun_ns=done_ns,
                done_ns=done_ns,
            )

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
