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
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from kafka import KafkaProducer
from kafka.errors import KafkaConfigurationError, KafkaTimeoutError

from ebbtide.errors import HarnessError
from ebbtide.journal.file import JournalHeader, JournalWriter
from ebbtide.journal.payload import encoder
from workloads.config import ProducerConfig
from workloads.incarnations import KafkaPythonIncarnation
from workloads.process import Stop
from workloads.reaching import client_security, refused_settings
from workloads.sending import PacedSender, await_leaders, run_producer, send_all, send_order, send_transactions
from workloads.sends import AttemptWatch, Sends
from workloads.settings import kafka_python_settings
from workloads.status import ClientState, StatusFile
from workloads.transactions import Transactions

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
