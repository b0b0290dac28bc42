"""The account of a kafka-python producer: what was handed over, and its outcomes, journalled.

Records of one partition go into the client's batches in the order of their sequence, so that a batch is a run of
sequences. One answer per batch, `(first sequence, count, base offset)`, gives the outcome of every record in it. Only
the thread that sends touches the account; the client's thread puts its answers into a queue.

Sees what kafka-python does not report: how earlier attempts of a batch ended.

A record whose last answer is NOT_ENOUGH_REPLICAS is certainly not appended, unless an attempt before it timed out.
kafka-python's futures carry only the last answer. This module therefore watches the one place where the sender
decides what an error means for a batch (`Sender._dispatch_error`, kafka-python 3.0).

An attempt is *open* from the moment its batch is drained into a request until an answer, a disconnect or a timeout
ends it. A batch whose delivery timeout passes while no attempt is open has expired in the buffer.
"""

from __future__ import annotations

import inspect
from collections import deque
from functools import partial
from typing import Any

from kafka import KafkaProducer
from kafka.producer.sender import Sender

from ebbtide import run_clock
from ebbtide.errors import HarnessError
from ebbtide.journal.file import JournalWriter
from ebbtide.journal.outcomes import UNRESOLVED, Attempts, Outcome, outcome_of, resolve
from workloads.send_account import SendAccount, SentPartition
from workloads.status import StatusFile


class AttemptWatch:
    """Watches the batches of one producer; make it before the first send.

    Any thread calls `pop_attempts` once a batch is final. The watching itself happens on the sender's thread.
    """

    def __init__(self, producer: KafkaProducer) -> None:
        _check_client()
        self._ended: dict[Any, Attempts] = {}
        sender = producer._sender
        self._decide = sender._dispatch_error
        sender._dispatch_error = self._on_error
        # Splitting a batch moves its records to new batches, so that one answer no longer covers one run of
        # sequences. A batch that is too large fails instead.
        sender._can_split = lambda *_: False

    def pop_attempts(self, batch_future: Any) -> Attempts | None:
        """Return the attempts seen for a batch, only once.

        None when no attempt of it was seen to end in an error.
        """
        return self._ended.pop(batch_future, None)

    def _on_error(self, batch: Any, exception: BaseException, partition_response: Any) -> None:
        if batch.final_state is None:
            seen = self._ended.setdefault(batch.produce_future, Attempts())
            if batch.drained is None or batch.drained == seen.last_ended:
                seen.expired_unsent = True
            else:
                seen.last_ended = batch.drained
                seen.maybe_appended |= outcome_of(exception).outcome != "failed"
        self._decide(batch, exception, partition_response)


def _check_client() -> None:
    """Raise `HarnessError` when the installed kafka-python cannot be watched."""
    decide = getattr(Sender, "_dispatch_error", None)
    expected = ["self", "batch", "exception", "partition_response"]
    if decide is None or list(inspect.signature(decide).parameters) != expected or not hasattr(Sender, "_can_split"):
        raise HarnessError(
            "this kafka-python cannot be watched, because its sender has changed",
            where="kafka.producer.sender.Sender._dispatch_error",
            allowed="kafka-python 3.0.12 or newer, below 4",
            next="pip install 'kafka-python>=3.0.12,<4'",
        )


ACKS_NONE = 0


class Run:
    """Consecutive sequences of one partition in one batch.

    `start` is the place of the first one in the batch.
    """

    __slots__ = ("batch", "end", "first", "lane", "start")

    def __init__(self, lane: BatchedPartition, batch: Any, first: int, start: int) -> None:
        self.lane = lane
        self.batch = batch
        self.first = first
        self.start = start
        self.end: int | None = None


class BatchedPartition(SentPartition):
    """One partition, with its unanswered runs and the run being filled."""

    __slots__ = ("batch", "run", "runs")

    def __init__(self, partition: int) -> None:
        super().__init__(partition)
        self.batch: Any = None
        self.run: Run | None = None
        self.runs: dict[int, Run] = {}


class Sends(SendAccount[BatchedPartition]):
    """Lanes, answers and the journal of one producer."""

    def __init__(self, journal: JournalWriter, status: StatusFile, partitions: int, acks: int) -> None:
        super().__init__(journal, status, [BatchedPartition(partition) for partition in range(partitions)])
        self._acks = acks
        self._answers: deque[tuple[Run, Any, int]] = deque()
        self._watch: AttemptWatch | None = None

    def watch(self, watch: AttemptWatch) -> None:
        """Set the watch on the client whose answers arrive from now on."""
        self._watch = watch

    def begin_run(self, lane: BatchedPartition, sequence: int, future: Any) -> None:
        """Begin a run: `sequence` is the first in its batch, or follows a refused send."""
        if lane.run is not None:
            lane.run.end = sequence
        batch = future._produce_future
        run = Run(lane, batch, sequence, future.args[0])
        lane.batch, lane.run, lane.runs[sequence] = batch, run, run
        batch.add_callback(partial(self._on_answer, run))

    def note_refused(self, lane: BatchedPartition, sequence: int, error: BaseException) -> None:
        """Journal that `send` raised.

        Its record may or may not be in a batch, so that the next record starts a run of its own.
        """
        if lane.run is not None:
            lane.run.end = sequence
        lane.batch = lane.run = None
        row = outcome_of(error)
        outcome: Outcome = "unknown" if row.outcome == "acked" else row.outcome
        self._append_answer(lane, sequence, 1, outcome, -1, row.name, run_clock.now_ns())

    def flush(self) -> None:
        """Journal what happened since the last flush, and count it. Raises `JournalError`."""
        for _ in range(len(self._answers)):
            run, answer, done_ns = self._answers.popleft()
            if run.lane.runs.pop(run.first, None) is not None:
                self._resolve(run, answer, done_ns)
        self._write()

    def abandon(self) -> None:
        """Journal every record without an answer as unknown; call it at the end."""
        self.flush()
        now = run_clock.now_ns()
        for lane in self.lanes:
            for run in lane.runs.values():
                self._append_answer(lane, run.first, self._end_of_run(run) - run.first, "unknown", -1, UNRESOLVED, now)
            lane.runs.clear()
        self._write()

    def _on_answer(self, run: Run, answer: Any) -> None:
        self._answers.append((run, answer, run_clock.now_ns()))

    def _end_of_run(self, run: Run) -> int:
        """Return the sequence after a run's last one.

        That is the start of the next run, or, before another batch has begun, the next sequence to send.
        """
        end = run.lane.next_sequence if run.end is None else run.end
        if run is run.lane.run:
            # The batch is final: the next record is in another batch.
            run.lane.batch = run.lane.run = None
        return end

    def _resolve(self, run: Run, answer: Any, done_ns: int) -> None:
        assert self._watch is not None
        base_offset, _, error_of = answer
        attempts = self._watch.pop_attempts(run.batch)
        count = self._end_of_run(run) - run.first
        if error_of is not None:
            outcome, name = resolve(error_of(run.start), attempts)
            base = -1
        elif self._acks == ACKS_NONE:
            outcome, name, base = "acked", "", -1
        elif base_offset >= 0:
            outcome, name, base = "acked", "", base_offset + run.start
        else:
            outcome, name, base = "unknown", "DUPLICATE_SEQUENCE_NUMBER", -1
        self._append_answer(run.lane, run.first, count, outcome, base, name, done_ns)
