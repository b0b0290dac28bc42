"""A producer process that sends with Kafka's own Java client, with or without transactions.

`python -m ebbtide.command workloads.java_producer CONFIG.json`, whose configuration is a
`workloads.config.ProducerConfig` with a `java` program.

Rate, keys, payloads and the decisions about transactions are those of `workloads.producer`; `workloads.java_remote` is
the client. The Java client says how a commit or an abort ended, and raises where it does not know. It does not say how
often it sent a request, nor its producer epoch, so that no conclusion rests on them. It reports the last error of a
record, and not how its earlier attempts ended.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

from kafka.errors import KafkaError

from ebbtide import run_clock
from ebbtide.errors import HarnessError
from ebbtide.journal.file import JournalHeader, JournalWriter
from ebbtide.journal.outcomes import outcome_of_last_answer
from ebbtide.journal.payload import encoder
from ebbtide.properties_file import render
from ebbtide.waiting import pause
from workloads.config import ProducerConfig
from workloads.java_remote import JavaCallError, RecordAnswer, RemoteProducers, name_of_exception
from workloads.library_settings import java_settings, makes_one_attempt
from workloads.process import ClientState, StatusFile, Stop
from workloads.sending import PacedSender, await_leaders, run_producer, send_all, send_order, send_transactions
from workloads.settings import format_value
from workloads.single_sends import SingleSends
from workloads.transactions import Transactions

_SERIALIZER = "org.apache.kafka.common.serialization.ByteArraySerializer"
_FENCINGS = ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")


class JavaIncarnation:
    """One KafkaProducer of the Java process, with the transactional id. Raises `HarnessError` if it does not open.

    `has_failed_send`: a record of the open transaction failed, so the client accepts no more until it has ended.
    """

    def __init__(self, remote: RemoteProducers, number: int) -> None:
        self.number = number
        self.commits_sent = 0
        self.last_error = ""
        self.is_fenced = False
        self.has_failed_send = False
        self._remote = remote
        try:
            remote.call(number, "open")
        except JavaCallError as error:
            if not error.names:
                raise  # The process has ended, which says nothing about the settings: `check` says how it ended.
            raise HarnessError(
                "the Java client does not start with these settings", got=str(error), next="correct the `properties`"
            ) from None

    @property
    def epoch(self) -> tuple[int, int]:
        """Always the same: a Java client never takes a commit for done because its epoch moved."""
        return -1, -1

    def note_error(self, name: str, text: str) -> None:
        """Note an error in the client's words; `name` is Kafka's."""
        self.last_error = text
        self.is_fenced = self.is_fenced or name in _FENCINGS

    def init_transactions(self) -> None:
        """Take over the transactional id; what an earlier incarnation left open is then aborted."""
        self._call("init")

    def begin_transaction(self) -> None:
        """Begin a transaction; no request is sent."""
        # A fenced client begins no more: what an earlier transaction met, such as an old epoch, was no fencing.
        self.is_fenced = self.has_failed_send = False
        self._call("begin")

    def commit_transaction(self) -> None:
        """Ask for the commit, and wait for the answer."""
        self._call("commit")

    def abort_transaction(self) -> None:
        """Ask for the abort, and wait for the answer."""
        self._call("abort")

    def discard(self) -> None:
        """End it without waiting for an answer."""
        try:
            self._remote.call(self.number, "discard")
        except KafkaError as error:
            self.last_error = str(error)

    def _call(self, what: str) -> None:
        try:
            self._remote.call(self.number, what)
        except JavaCallError as error:
            for name in error.names:
                self.note_error(name_of_exception(name), str(error))
            raise


class JavaSender(PacedSender):
    """Hands records to the Java client, in turn to the partitions or keys. `incarnation` is the one that sends now."""

    def __init__(self, config: ProducerConfig, remote: RemoteProducers, sends: SingleSends) -> None:
        super().__init__(config, sends)
        self.incarnation: JavaIncarnation | None = None
        self._remote = remote
        self._sends = sends
        self._send_order = send_order(config, sends.lanes[: config.partitions_at_start])
        self._encode = encoder(config.run_id, config.id, config.payload_bytes)
        self._is_only_attempt = makes_one_attempt(config)

    def send_burst(self, count: int) -> bool:
        """Hand over `count` records; False, and none of them, once a record of the transaction has failed."""
        assert self.incarnation is not None
        if self.incarnation.has_failed_send and self._config.transactional_id is not None:
            return False
        turns = self._send_order
        for number in range(self.number, self.number + count):
            key, lane = turns[number % len(turns)]
            value = self._config.value_at(number)
            sequence = self._sends.hand_over(lane, value, run_clock.now_ns())
            payload = self._encode(sequence, value)
            self._remote.send(self.incarnation.number, lane.partition, sequence, key, payload)
        self.number += count
        self._remote.flush()
        return True

    def serve(self, wait_s: float = 0.0) -> None:
        """Note the answers that came, and wait.

        Raises `HarnessError` if the Java process has ended; what it did is journalled first.
        """
        has_ended = self._remote.has_ended
        for answer in self._remote.answers():
            self._note(answer)
        if has_ended:
            self._sends.flush()
            self._remote.check()
        if wait_s:
            pause(wait_s)

    def _note(self, answer: RecordAnswer) -> None:
        lane = self._sends.lanes[answer.partition]
        if not answer.error:
            offset = answer.offset if answer.offset >= 0 else None
            self._sends.answer(lane, answer.sequence, "acked", offset, "", answer.at_ns)
            return
        name = name_of_exception(answer.error)
        if self.incarnation is not None:
            self.incarnation.note_error(name, name)
            self.incarnation.has_failed_send = True
        outcome = outcome_of_last_answer(name, is_only_attempt=self._is_only_attempt)
        self._sends.answer(lane, answer.sequence, outcome, None, name, answer.at_ns)


def run(config: ProducerConfig, status: StatusFile, stop: Stop) -> ClientState:
    """Produce until every record has an outcome, or until stopped; returns the last state."""
    assert config.java is not None
    header = JournalHeader(table="sends", id=config.id, topics=(config.topic,), acks=config.acks)
    sends = SingleSends(JournalWriter(Path(config.journal), header, config.life), status, config.partitions)
    bootstrap = await_leaders(config, stop)
    if not bootstrap:
        return ClientState.STOPPED
    own = {"bootstrap.servers": ",".join(bootstrap), "key.serializer": _SERIALIZER, "value.serializer": _SERIALIZER}
    settings = Path(config.endpoints.status).with_suffix(".properties")
    values = {name: format_value(value) for name, value in java_settings(config).items()}
    settings.write_text(render({**values, **own}))
    remote = RemoteProducers(config.java, settings, config.topic)
    try:
        return _send(config, remote, sends, status, stop)
    finally:
        remote.close()


def _send(
    config: ProducerConfig, remote: RemoteProducers, sends: SingleSends, status: StatusFile, stop: Stop
) -> ClientState:
    sending, numbers = JavaSender(config, remote, sends), itertools.count()
    if config.transactional_id is None:
        sending.incarnation = JavaIncarnation(remote, next(numbers))
        sending.start_pace()
        return send_all(config, sends, sending, status, stop, sending.serve)

    def use(incarnation: JavaIncarnation) -> None:
        if sending.incarnation is None:
            sending.start_pace()
        sending.incarnation = incarnation
        status.set_state(ClientState.RUNNING)

    transactions = Transactions(config, sends, lambda: JavaIncarnation(remote, next(numbers)), use)
    return send_transactions(config, sends, sending, transactions, stop, serve=sending.serve)


def main(argv: Sequence[str]) -> int:
    """Run the producer to its end."""
    return run_producer(argv, run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
