"""The account of a producer that uses librdkafka: hand-overs and answers are noted in bulk.

Nearly a million records a second leave Python less than a microsecond for each. So a record that is handed over adds
nothing here but its number, and its answer is only put into a list. `close_runs` does the rest for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, cycle, pairwise
from typing import cast

import numpy as np
from confluent_kafka import KafkaError, Message

from ebbtide import run_clock
from ebbtide.journal.file import JournalWriter
from ebbtide.journal.outcomes import name_of_code, outcome_of_last_answer
from ebbtide.journal.payload import Ints, PayloadBatches
from workloads.config import ProducerConfig
from workloads.library_settings import makes_one_attempt
from workloads.sending import send_order
from workloads.single_sends import OpenPartition, SingleSends
from workloads.status import StatusFile


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
