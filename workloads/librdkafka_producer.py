"""A producer process that sends with librdkafka, through confluent-kafka.

`python -m ebbtide.command workloads.librdkafka_producer CONFIG.json`, whose configuration is a
`workloads.config.ProducerConfig`.

Rate, count, keys and payloads are those of `workloads.producer`. librdkafka reports the last error of a record, and
not how its earlier attempts ended; `outcome_of_last_answer` says what that leaves certain.

Nearly a million records a second leave Python less than a microsecond for each. So a record that is handed over adds
nothing to the account but its number, and its answer is only put into a list. `close_runs` does the rest for all of
them.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, cycle, pairwise
from pathlib import Path
from typing import NoReturn, cast

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ebbtide import run_clock
from ebbtide.journal.file import JournalHeader, JournalWriter
from ebbtide.journal.outcomes import name_of_code, outcome_of_last_answer
from ebbtide.journal.payload import Ints, PayloadBatches
from workloads.config import ProducerConfig
from workloads.library_settings import librdkafka_settings, makes_one_attempt
from workloads.process import ClientState, StatusFile, Stop
from workloads.reaching import refused_settings
from workloads.sending import PacedSender, await_leaders, run_producer, send_all, send_order
from workloads.single_sends import OpenPartition, SingleSends


class SendTurns:
    """Record numbers count up from 0 over all partitions; the order of the partitions repeats."""

    def __init__(self, partitions: Sequence[int]) -> None:
        """`partitions` are those of the first records, until the order repeats."""
        self._partitions = np.array(partitions, np.int64)
        self._has_one_turn = len(partitions) == 1
        counts = np.bincount(self._partitions)
        seen = [partitions[:turn].count(partition) for turn, partition in enumerate(partitions)]
        self._seen_before = np.array(seen, np.int64)
        self._per_round = counts[self._partitions]

    def partitions(self, numbers: Ints) -> Ints:
        """Return the partition of each record."""
        if self._has_one_turn:  # spares two divisions for each record
            return np.full(len(numbers), self._partitions[0])
        return self._partitions[numbers % len(self._partitions)]

    def sequences(self, numbers: Ints) -> Ints:
        """Return the sequence of each record in its partition."""
        if self._has_one_turn:
            return numbers
        rounds, turns = np.divmod(numbers, len(self._partitions))
        return rounds * self._per_round[turns] + self._seen_before[turns]


class LibrdkafkaSends(SingleSends):
    """Partitions, answers and the journal of one producer, by the numbers of its records."""

    def __init__(self, config: ProducerConfig, journal: JournalWriter, status: StatusFile) -> None:
        super().__init__(journal, status, config.partitions)
        self._order = [(key, lane.partition) for key, lane in send_order(config, self.lanes)]
        self._turns = SendTurns([partition for _, partition in self._order])
        self._payloads = PayloadBatches(config.run_id, config.id, config.payload_bytes)
        self._first_value = config.value_at(0)
        self._is_only_attempt = makes_one_attempt(config)
        self._handed: list[tuple[int, int]] = []
        self._noted_end = 0
        self._answers: list[Message] = []
        self._errors: list[KafkaError] = []
        self.note_answer = _callback(self._answers, self._errors)
        """Takes an answer of librdkafka."""

    def payloads(self, first: int, count: int) -> list[bytes]:
        """Return the payloads of `count` records, from number `first` on."""
        numbers = np.arange(first, first + count)
        return self._payloads.encode(self._turns.sequences(numbers), self._first_value + numbers)

    def turns(self, first: int) -> Iterator[tuple[bytes | None, int]]:
        """Return key and partition of each record, from number `first` on."""
        at = first % len(self._order)
        return chain(self._order[at:], cycle(self._order))

    def hand_over_below(self, end: int, sent_ns: int) -> None:
        """Note that all records below number `end` are handed over, those after the last call at `sent_ns`."""
        self._handed.append((end, sent_ns))

    def refuse(self, number: int, error: str, done_ns: int) -> None:
        """Note that librdkafka did not take the record `number`, which was the last one handed over."""
        self._note_handed()
        ((lane, sequence),) = self._places(np.array([number]))
        self.answer(lane, sequence, "failed", None, error, done_ns)

    def close_runs(self) -> None:
        """Journal all answers until now with the next flush; those in the list came now."""
        self._note_handed()
        self._note_answers(run_clock.now_ns())
        super().close_runs()

    def _note_handed(self) -> None:
        """Make the rows of the records that were handed over."""
        if not self._handed:
            return
        ends, times = np.array(self._handed, np.int64).T
        self._handed.clear()
        numbers = np.arange(self._noted_end, ends[-1])
        rows = np.column_stack((self._first_value + numbers, np.repeat(times, np.diff(ends, prepend=self._noted_end))))
        self._noted_end = int(ends[-1])
        partitions = self._turns.partitions(numbers)
        rows = rows[np.argsort(partitions, kind="stable")]
        at = 0
        for lane, count in zip(self.lanes, np.bincount(partitions, minlength=len(self.lanes)).tolist(), strict=True):
            if count:
                lane.rows.frombytes(rows[at : at + count].tobytes())
                lane.next_sequence += count
                at += count

    def _note_answers(self, done_ns: int) -> None:
        """Note the answers that came, in their order within each partition."""
        answers, has_errors = self._answers.copy(), bool(self._errors)
        self._answers.clear()
        self._errors.clear()
        if not answers:
            return
        # None would be a tombstone, and this producer sends none.
        payloads = cast("Iterator[bytes]", map(Message.value, answers))
        numbers = self._payloads.values_of(payloads) - self._first_value
        offsets = None if has_errors else _offsets_of(answers)
        if offsets is None:
            for (lane, sequence), message in zip(self._places(numbers), answers, strict=True):
                self._note_one(lane, sequence, message, done_ns)
            return
        partitions, sequences = self._turns.partitions(numbers), self._turns.sequences(numbers)
        order = np.argsort(partitions, kind="stable")
        partitions, sequences, offsets = partitions[order], sequences[order], offsets[order]
        is_next = (np.diff(partitions) == 0) & (np.diff(sequences) == 1) & (np.diff(offsets) == 1)
        for begin, end in pairwise([0, *(np.flatnonzero(~is_next) + 1).tolist(), len(answers)]):
            lane = self.lanes[partitions[begin]]
            self.ack_run(lane, int(sequences[begin]), end - begin, int(offsets[begin]), done_ns)

    def _note_one(self, lane: OpenPartition, sequence: int, message: Message, done_ns: int) -> None:
        error = message.error()
        if error is None:
            self.answer(lane, sequence, "acked", message.offset(), "", done_ns)
            return
        name = name_of_error(error)
        outcome = outcome_of_last_answer(name, is_only_attempt=self._is_only_attempt)
        self.answer(lane, sequence, outcome, None, name, done_ns)

    def _places(self, numbers: Ints) -> list[tuple[OpenPartition, int]]:
        """Return the partition and the sequence of each record."""
        partitions, sequences = self._turns.partitions(numbers), self._turns.sequences(numbers)
        return [(self.lanes[one], at) for one, at in zip(partitions.tolist(), sequences.tolist(), strict=True)]


def name_of_error(error: KafkaError) -> str:
    """Return the name of an answer: Kafka's for Kafka's codes, librdkafka's own for the rest."""
    return name_of_code(error.code()) or str(error.name())


def _callback(answers: list[Message], errors: list[KafkaError]) -> Callable[[KafkaError | None, Message], None]:
    """Return a function that notes an answer; a method would look up both lists at each call."""
    append = answers.append

    def note_answer(error: KafkaError | None, message: Message) -> None:
        append(message)
        if error is not None:
            errors.append(error)

    return note_answer


def _offsets_of(answers: list[Message]) -> Ints | None:
    """Return the offsets of acks; None if one of them has none, as with acks=0."""
    try:
        return np.fromiter(map(Message.offset, answers), np.int64, len(answers))
    except TypeError:
        return None


_ANSWERS_NS = 1_000_000
"""Answers are noted once in a millisecond: many at once cost less."""
_PAYLOADS = 4_000
_PAYLOADS_BYTES = 1 << 20
"""So many payloads are made at once, and so many bytes unless one is longer: many at once cost less."""


class LibrdkafkaSender(PacedSender):
    """Hands records to librdkafka, in turn to the partitions or keys."""

    burst = 500
    """At full speed that takes half a millisecond."""

    def __init__(self, config: ProducerConfig, producer: Producer, sends: LibrdkafkaSends) -> None:
        super().__init__(config, sends)
        self._producer = producer
        self._sends = sends
        self._payloads: list[bytes] = []
        self._payloads_end = 0
        self._noted_ns = 0

    def send_burst(self, count: int) -> bool:
        """Hand over `count` records; False when librdkafka refused one.

        They have one time, at which none was handed over yet.
        """
        produce, topic, note = self._producer.produce, self._config.topic, self._sends.note_answer
        numbers = range(self.number, self.number + count)
        sent_ns = run_clock.now_ns()
        for number, payload, (key, partition) in zip(
            numbers, self._next_payloads(count), self._sends.turns(self.number), strict=False
        ):
            try:
                # Without keywords, which cost a fifth of this loop.
                produce(topic, payload, key, partition, note)
            except (BufferError, KafkaException) as error:
                # The record never entered librdkafka's queue.
                self.number = number + 1
                self._sends.hand_over_below(self.number, sent_ns)
                self._sends.refuse(number, _name_of_refusal(error), run_clock.now_ns())
                return False
        self.number += count
        self._sends.hand_over_below(self.number, sent_ns)
        return True

    def serve(self, wait_s: float) -> None:
        """Let librdkafka hand out its answers; waits at most `wait_s` for the first."""
        self._producer.poll(wait_s)
        now = run_clock.now_ns()
        if now - self._noted_ns >= _ANSWERS_NS:
            self._sends.close_runs()
            self._noted_ns = now

    def _next_payloads(self, count: int) -> list[bytes]:
        """Return the payloads of the next `count` records."""
        if self._payloads_end < self.number + count:
            size = max(count, min(_PAYLOADS, _PAYLOADS_BYTES // self._config.payload_bytes))
            self._payloads = self._sends.payloads(self.number, size)
            self._payloads_end = self.number + size
        at = len(self._payloads) - (self._payloads_end - self.number)
        return self._payloads[at : at + count]


def open_producer(config: ProducerConfig, bootstrap: Sequence[str]) -> Producer:
    """Return librdkafka's producer with our settings. Raises `HarnessError` for a value that it does not take."""
    own = {"bootstrap.servers": ",".join(bootstrap), "client.id": f"ebbtide-producer-{config.id}"}
    try:
        return Producer({**librdkafka_settings(config), **own})
    except KafkaException as error:
        raise refused_settings("librdkafka", f"producer {config.id}", error.args[0].str()) from None


def _name_of_refusal(error: Exception) -> str:
    if isinstance(error, KafkaException) and error.args and isinstance(error.args[0], KafkaError):
        return name_of_error(error.args[0])
    return type(error).__name__


def run(config: ProducerConfig, status: StatusFile, stop: Stop) -> ClientState:
    """Produce until every record has an outcome, or until stopped; returns the state."""
    header = JournalHeader(table="sends", id=config.id, topics=(config.topic,), acks=config.acks)
    sends = LibrdkafkaSends(config, JournalWriter(Path(config.journal), header, config.life), status)
    bootstrap = await_leaders(config, stop)
    if not bootstrap:
        return ClientState.STOPPED
    producer = open_producer(config, bootstrap)
    sending = LibrdkafkaSender(config, producer, sends)
    # Otherwise Python looks for garbage among the callbacks of unanswered records, which takes a third of its time.
    gc.set_threshold(max(5 * config.max_outstanding, gc.get_threshold()[0]))
    return send_all(config, sends, sending, status, stop, serve=sending.serve)


def main(argv: Sequence[str]) -> NoReturn:
    """Run the producer to its end, and end this process."""
    code = run_producer(argv, run)
    sys.stderr.flush()
    # The journal is complete. librdkafka would still send what the journal calls unknown.
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
