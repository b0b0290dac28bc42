"""The common part of the tailing consumer and the final read.

It makes the client, and journals what a poll returned.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from cluster.kafka_api.connection import WireError
from ebbtide import run_clock
from ebbtide.journal.file import JournalWriter
from ebbtide.journal.frames import PolledRecords, pack_polled
from ebbtide.waiting import wait_until
from workloads.config import Endpoints
from workloads.reaching import client_security, connection_to
from workloads.settings import Setting


def wait_for_brokers(
    endpoints: Endpoints, bootstrap: Sequence[str], timeout_s: float, stop: Callable[[], bool]
) -> list[str]:
    """Wait for a broker that answers a Metadata request; returns all that answer.

    Empty when stopped meanwhile. Raises `WaitExpired` if none answers.
    """
    seen = "nothing"

    def ask() -> list[str] | None:
        nonlocal seen
        if stop():
            return [""]
        found = []
        for address in bootstrap:
            try:
                with connection_to(endpoints, address) as broker:
                    broker.metadata([])
                found.append(address)
            except WireError as error:
                seen = str(error)
        return found

    found = wait_until(ask, awaited="a broker that answers", timeout_s=timeout_s, last_seen=lambda: seen, poll_s=0.1)
    return [] if stop() else found


class RejoiningConsumer(KafkaConsumer):  # type: ignore[misc]
    """kafka-python's consumer, which does not forget a rebalance if it is asked to continue it.

    kafka-python 3.0.12 forgets a rebalance that new metadata began once the group's leader has assigned by that
    metadata: need_rejoin() is false from then on, and no poll takes the answer to the SyncGroup.
    """

    def continue_rebalance(self) -> None:
        """Let the next poll join the group, unless it has joined by then."""
        self._coordinator.request_rejoin()

    def shut_down(self, handled: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Commit, unless Ebbtide commits, and leave the group; what a poll returned and was not handled stays."""
        for partition, offset in handled.items():
            self.seek(partition, offset)
        self.close(timeout_ms=int(timeout_s * 1000))


def open_consumer(
    endpoints: Endpoints, bootstrap: Sequence[str], name: str, settings: Mapping[str, Setting]
) -> RejoiningConsumer:
    """Return kafka-python's consumer with the settings of `workloads.library_settings`."""
    return RejoiningConsumer(
        bootstrap_servers=list(bootstrap), client_id=name, **settings, **client_security(endpoints, bootstrap)
    )


class ReadPartition:
    """The reading of one partition.

    `topic` is its topic's index in the journal, `session` the current session, `previous` the last offset that the
    session returned (-1: none).
    """

    def __init__(self, topic: int, partition: TopicPartition) -> None:
        self.topic = topic
        self.partition = partition
        self.session = 0
        self.previous = -1

    def reposition(self, session: int) -> None:
        """Begin a session: the records that follow are not connected with earlier ones."""
        self.session = session
        self.previous = -1


def journal_poll(
    journal: JournalWriter,
    lanes: dict[TopicPartition, ReadPartition],
    returned: dict[TopicPartition, list[Any]],
    value_of: Callable[[bytes | None], int | None],
) -> None:
    """Journal everything that one poll returned. Raises `JournalError`."""
    polled_ns = run_clock.now_ns()
    frames = []
    for partition, records in returned.items():
        lane = lanes[partition]
        offsets = array("q", [record.offset for record in records])
        decoded = (value_of(record.value) for record in records)
        values = array("q", [-1 if value is None else value for value in decoded])
        polled = PolledRecords(
            topic=lane.topic,
            partition=partition.partition,
            session=lane.session,
            previous=lane.previous,
            polled_ns=polled_ns,
            offsets=offsets,
            values=values,
            epochs=array("q", [record.leader_epoch for record in records]),
        )
        frames.append(pack_polled(polled))
        lane.previous = offsets[-1]
    journal.write(frames)
