"""A producer process that sends with librdkafka, through confluent-kafka.

`python -m ebbtide.command workloads.librdkafka_producer CONFIG.json`, whose configuration is a
`workloads.config.ProducerConfig`.

Rate, count, keys and payloads are those of `workloads.producer`. librdkafka reports the last error of a record, and
not how its earlier attempts ended; `outcome_of_last_answer` says what that leaves certain.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ebbtide.errors import HarnessError
from ebbtide.journal.file import JournalHeader, JournalWriter
from ebbtide.journal.outcomes import name_of_code, outcome_of_last_answer
from ebbtide.journal.payload import encoder, value_at
from workloads.config import ProducerConfig
from workloads.library_settings import librdkafka_settings, makes_one_attempt
from workloads.process import Stop
from workloads.sending import PacedSender, await_leaders, run_producer, send_all, send_order
from workloads.single_sends import OpenPartition, SingleSends
from workloads.status import ClientState, StatusFile

_ANSWERS_NS = 1_000_000
"""Answers get their time once in a millisecond: reading the clock for each costs more than noting it."""


class LibrdkafkaSender(PacedSender):
    """Hands records to librdkafka, in turn to the partitions or keys."""

    def __init__(self, config: ProducerConfig, producer: Producer, sends: SingleSends) -> None:
        super().__init__(config, sends)
        self._producer = producer
        self._sends = sends
        self._send_order = send_order(config, sends.lanes)
        self._encode = encoder(config.run_id, config.id, config.payload_bytes)
        self._closed_ns = 0
        self._is_only_attempt = makes_one_attempt(config)

    def send_burst(self, count: int) -> bool:
        """Hand over `count` records; False when librdkafka refused one."""
        turns, topic, produce = self._send_order, self._config.topic, self._producer.produce
        encode, note, clock = self._encode, self._note_answer, time.time_ns
        first = value_at(self._config.id, 0)
        for number in range(self.number, self.number + count):
            key, lane = turns[number % len(turns)]
            value = first + number
            sequence = lane.next_sequence
            payload = encode(sequence, value)
            # What `SingleSends.hand_over` does, without a call for each record.
            lane.rows.append(value)
            lane.rows.append(clock())
            lane.next_sequence = sequence + 1
            self.number = number + 1
            try:
                # Without keywords, which cost a fifth of this loop: key, partition, callback.
                produce(topic, payload, key, lane.partition, partial(note, lane, sequence))
            except (BufferError, KafkaException) as error:
                # The record never entered librdkafka's queue.
                self._sends.answer(lane, sequence, "failed", None, _name_of_refusal(error), time.time_ns())
                return False
        return True

    def serve(self, wait_s: float) -> None:
        """Let librdkafka hand out its answers; waits at most `wait_s` for the first."""
        self._producer.poll(wait_s)
        now = time.time_ns()
        if now - self._closed_ns >= _ANSWERS_NS:
            self._sends.close_runs(now)
            self._closed_ns = now

    def _note_answer(self, lane: OpenPartition, sequence: int, error: KafkaError | None, message: Message) -> None:
        if error is None and sequence == lane.answered_end and message.offset() == lane.due_offset:
            # Nearly every answer; `serve` says when it came.
            lane.answered_end = sequence + 1
            lane.due_offset += 1
            return
        if error is not None:
            name = name_of_error(error)
            outcome = outcome_of_last_answer(name, is_only_attempt=self._is_only_attempt)
            self._sends.answer(lane, sequence, outcome, None, name, time.time_ns())
            return
        offset = message.offset()
        known = offset if offset is not None and offset >= 0 else None
        self._sends.answer(lane, sequence, "acked", known, "", time.time_ns())


def open_producer(config: ProducerConfig, bootstrap: Sequence[str]) -> Producer:
    """Return librdkafka's producer with our settings. Raises `HarnessError` for a value that it does not take."""
    own = {"bootstrap.servers": ",".join(bootstrap), "client.id": f"ebbtide-producer-{config.id}"}
    try:
        return Producer({**librdkafka_settings(config), **own})
    except KafkaException as error:
        raise HarnessError(
            "librdkafka refuses a setting",
            where=f"the properties of producer {config.id}",
            got=error.args[0].str(),
            next="correct the value in the scenario",
        ) from None


def name_of_error(error: KafkaError) -> str:
    """Return the name of an answer: Kafka's for Kafka's codes, librdkafka's own for the rest."""
    return name_of_code(error.code()) or str(error.name())


def _name_of_refusal(error: Exception) -> str:
    if isinstance(error, KafkaException) and error.args and isinstance(error.args[0], KafkaError):
        return name_of_error(error.args[0])
    return type(error).__name__


def run(config: ProducerConfig, status: StatusFile, stop: Stop) -> ClientState:
    """Produce until every record has an outcome, or until stopped; returns the state."""
    header = JournalHeader(table="sends", id=config.id, topics=(config.topic,), acks=config.acks)
    sends = SingleSends(JournalWriter(Path(config.journal), header), status, config.partitions)
    bootstrap = await_leaders(config, stop)
    if not bootstrap:
        return ClientState.STOPPED
    producer = open_producer(config, bootstrap)
    sending = LibrdkafkaSender(config, producer, sends)
    # Otherwise Python looks for garbage among the callbacks of unanswered records, which takes a third of its time.
    gc.set_threshold(max(5 * config.max_outstanding, gc.get_threshold()[0]))
    return send_all(config, sends, sending, status, stop, serve=sending.serve)


if __name__ == "__main__":
    code = run_producer(sys.argv[1:], run)
    sys.stderr.flush()
    # The journal is complete. librdkafka would still send what the journal calls unknown.
    os._exit(code)
