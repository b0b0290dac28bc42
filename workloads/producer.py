"""A producer process.

`python -m ebbtide.command workloads.producer CONFIG.json`, whose configuration is a
`workloads.config.ProducerConfig`.

It is an ordinary kafka-python producer with ordinary retries. Every record is journalled before it is handed over,
and every answer when it comes. The settings (`workloads.library_settings`) that matter:

- `retries` without limit inside `delivery_timeout_ms`: applications run with retries.
- Idempotence only when asked for: it hides the duplicates and gaps that a run wants to show.
- One request in flight unless idempotent: otherwise the client itself reorders batches when it retries, and an order
  broken by the client would look like an order broken by Kafka.
- `request_timeout_ms` is short, so that a silent broker is given up within seconds. It must exceed the time that a
  follower needs to leave the ISR, or every acks=all send under a cut times out first.
- `max_block_ms` is short and the topic is awaited before the first send, so that `send` never blocks for long.
- The bootstrap list has only brokers that answered a moment ago: the client would wait long for a broker that does
  not answer.

`send` is never called twice for one record: a record that it refuses keeps its value, sequence and row.

Records of one partition go into the client's batches in the order of their sequence, so that a batch is a run of
sequences. One answer per batch, `(first sequence, count, base offset)`, gives the outcome of every record in it. Only
the thread that sends touches the account; the client's thread puts its answers into a queue.

kafka-python does not report how earlier attempts of a batch ended. A record whose last answer is NOT_ENOUGH_REPLICAS is
certainly not appended, unless an attempt before it timed out. kafka-python's futures carry only the last answer. This
module therefore watches the one place where the sender decides what an error means for a batch
(`Sender._dispatch_error`, kafka-python 3.0).

An attempt is *open* from the moment its batch is drained into a request until an answer, a disconnect or a timeout
ends it. A batch whose delivery timeout passes while no attempt is open has expired in the buffer.
"""

from __future__ import annotations

import inspect
import os
import sys
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from kafka import KafkaProducer
from kafka.errors import KafkaConfigurationError, KafkaTimeoutError
from kafka.producer.sender import Sender

from ebbtide import run_clock
from ebbtide.errors import HarnessError
from ebbtide.journal.file import JournalHeader, JournalWriter
from ebbtide.journal.outcomes import UNRESOLVED, Attempts, Outcome, outcome_of, resolve
from ebbtide.journal.payload import encoder
from workloads.config import ProducerConfig
from workloads.incarnations import KafkaPythonIncarnation
from workloads.process import ClientState, StatusFile, Stop
from workloads.reaching import client_security, refused_settings
from workloads.send_account import SendAccount, SentPartition
from workloads.sending import PacedSender, await_leaders, run_producer, send_all, send_order, send_transactions
from workloads.settings import kafka_python_settings
from workloads.transactions import Transactions


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


_LOOK_S = 0.2
"""Between two looks at the partitions that the client knows."""


def connect(config: ProducerConfig, stop: Stop) -> KafkaProducer | None:
    """Return a producer whose topic has a leader for every partition.

    None when it was stopped meanwhile. Raises `WaitExpired` after `start_timeout_s`.
    """
    bootstrap = await_leaders(config, stop)
    return open_producer(config, bootstrap) if bootstrap else None


def open_producer(config: ProducerConfig, bootstrap: Sequence[str]) -> KafkaProducer:
    """Return kafka-python's producer with our settings, its topic known.

    Raises `HarnessError` when the topic has too few partitions, or for values that kafka-python does not take.
    """
    try:
        producer = KafkaProducer(
            bootstrap_servers=list(bootstrap),
            client_id=f"ebbtide-producer-{config.id}",
            **kafka_python_settings(config),
            **client_security(config.endpoints, config.bootstrap),
        )
    except (KafkaConfigurationError, ValueError) as error:
        raise refused_settings("kafka-python", f"producer {config.id}", str(error)) from None
    known = producer.partitions_for(config.topic)
    if len(known) < config.partitions_at_start:
        raise HarnessError(
            f"the topic {config.topic} has fewer partitions than the producer needs",
            got=str(len(known)),
            allowed=f"at least {config.partitions_at_start}",
        )
    return producer


class RecordSender(PacedSender):
    """Hands records to kafka-python, in turn to the partitions or keys.

    `producer` may be replaced by another between two bursts. Partitions that a step adds are used as soon as the
    client knows them; a key may then go to another partition, as with Kafka's default partitioner.
    """

    def __init__(self, config: ProducerConfig, producer: KafkaProducer | None, sends: Sends) -> None:
        super().__init__(config, sends)
        self.producer = producer
        self._sends = sends
        self._open_lanes = config.partitions_at_start
        self._send_order = send_order(config, sends.lanes[: self._open_lanes])
        self._look_at_s = 0.0
        self._encode = encoder(config.run_id, config.id, config.payload_bytes)
        self._first_value = config.value_at(0)

    def send_burst(self, count: int) -> bool:
        """Hand over `count` records; False when `send` refused one.

        The records after the refused one were not handed over.
        """
        assert self.producer is not None
        self._open_new_lanes(self.producer)
        turns, topic = self._send_order, self._config.topic
        send, encode, clock = self.producer.send, self._encode, time.time_ns
        first = self._first_value
        for number in range(self.number, self.number + count):
            key, lane = turns[number % len(turns)]
            sequence = lane.next_sequence
            value = first + number
            payload = encode(sequence, value)
            lane.rows.append(value)
            lane.rows.append(clock())
            lane.next_sequence = sequence + 1
            self.number = number + 1
            try:
                future = send(topic, payload, key, None, lane.partition)
            except Exception as error:
                self._sends.note_refused(lane, sequence, error)
                return False
            if future._produce_future is not lane.batch:
                self._sends.begin_run(lane, sequence, future)
        return True

    def _open_new_lanes(self, producer: KafkaProducer) -> None:
        """Use the partitions that the client has learnt of since the last look."""
        now = time.monotonic()
        if self._open_lanes == len(self._sends.lanes) or now < self._look_at_s:
            return
        self._look_at_s = now + _LOOK_S
        known = min(len(producer.partitions_for(self._config.topic)), len(self._sends.lanes))
        if known > self._open_lanes:
            self._open_lanes = known
            self._send_order = send_order(self._config, self._sends.lanes[:known])


def run(config: ProducerConfig, status: StatusFile, stop: Stop) -> ClientState:
    """Produce until every record has an outcome, or until stopped; returns the state."""
    header = JournalHeader(table="sends", id=config.id, topics=(config.topic,), acks=config.acks)
    journal = JournalWriter(Path(config.journal), header, config.life)
    sends = Sends(journal, status, config.partitions, config.acks)
    if config.transactional_id is not None:
        return _run_transactions(config, sends, status, stop)
    producer = connect(config, stop)
    if producer is None:
        return ClientState.STOPPED
    sends.watch(AttemptWatch(producer))
    return send_all(config, sends, RecordSender(config, producer, sends), status, stop)


def _run_transactions(config: ProducerConfig, sends: Sends, status: StatusFile, stop: Stop) -> ClientState:
    """Produce in transactions, until done or stopped; returns the last state."""
    sending = RecordSender(config, None, sends)

    def open_() -> KafkaPythonIncarnation:
        producer = connect(config, stop)
        if producer is None:
            raise KafkaTimeoutError("the producer was stopped")
        return KafkaPythonIncarnation(producer)

    def use(incarnation: KafkaPythonIncarnation) -> None:
        sends.watch(AttemptWatch(incarnation.producer))
        sending.producer = incarnation.producer
        status.set_state(ClientState.RUNNING)

    return send_transactions(config, sends, sending, Transactions(config, sends, open_, use), stop)


def main(argv: Sequence[str]) -> NoReturn:
    """Run the producer to its end, and end this process."""
    code = run_producer(argv, run)
    sys.stderr.flush()
    # The journal is complete. kafka-python's exit hooks would still send what the journal calls unknown.
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
