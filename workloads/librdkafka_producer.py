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
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from confluent_kafka import KafkaError, KafkaException, Producer

from ebbtide import run_clock
from ebbtide.journal.file import JournalHeader, JournalWriter
from workloads.config import ProducerConfig
from workloads.library_settings import librdkafka_settings
from workloads.librdkafka_sends import LibrdkafkaSends, name_of_error
from workloads.process import Stop
from workloads.reaching import refused_settings
from workloads.sending import PacedSender, await_leaders, run_producer, send_all
from workloads.status import ClientState, StatusFile

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
