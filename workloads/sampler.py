"""Samples what every broker says about HW, ISR, ELR and the groups' committed offsets.

`python -m ebbtide.command workloads.sampler CONFIG.json`. Only the partition's leader answers ListOffsets(latest,
read_uncommitted), with its leader epoch. Asking every broker therefore needs no knowledge of who leads: the others
refuse, and a deposed leader that does not know it yet answers under its old epoch. Each broker has one thread and one
connection, with short timeouts: a broker that is cut off, paused or dead delays no other.

It also asks every broker how its metadata cache describes the partitions (KIP-966).

The description has ISR, ELR and last known ELR. DescribeTopicPartitions (API 75, from 3.8 on) is answered from the
broker's own image of the metadata log, which lags behind the controller's. Each broker has one thread and one
connection, as for the HW.
"""

from __future__ import annotations

import sys
import threading
from array import array
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from cluster.kafka_api.connection import DESCRIBE_TOPIC_PARTITIONS, LATEST, NONE, WireError
from ebbtide import run_clock
from ebbtide.journal.commits import PartitionAnswer, ServedOffset, pack_commits, pack_described
from ebbtide.journal.file import JournalHeader, JournalWriter
from ebbtide.journal.frames import pack_watermarks
from ebbtide.waiting import pause
from workloads.config import SamplerConfig, read_config
from workloads.group_offsets import BrokerOffsetReader
from workloads.process import Stop, run_client
from workloads.reaching import connection_to
from workloads.status import ClientState, StatusFile


class BrokerDescriber(threading.Thread):
    """Asks one broker for every topic, repeatedly.

    It ends where the broker does not support the API.
    """

    def __init__(
        self, config: SamplerConfig, broker: int, answers: deque[PartitionAnswer], stopping: threading.Event
    ) -> None:
        super().__init__(name=f"describer-{broker}", daemon=True)
        self._broker = broker
        self._answers = answers
        self._stopping = stopping
        self._interval_s = config.describe_interval_ms / 1000
        self._topics = {name: index for index, name in enumerate(config.topics)}
        self._connection = connection_to(
            config.endpoints,
            config.brokers[broker],
            connect_timeout_s=config.connect_timeout_ms / 1000,
            request_timeout_s=config.request_timeout_ms / 1000,
        )
        self._speaks: bool | None = None

    def run(self) -> None:
        """Ask until stopped; ask a broker that does not answer again after the interval."""
        while self._speaks is not False and not self._stopping.wait(self._interval_s):
            try:
                self._ask()
            except WireError:
                continue
        self._connection.close()

    def _ask(self) -> None:
        """Ask once. Raises `WireError`."""
        self._connection.connect()
        if self._speaks is None:
            self._speaks = DESCRIBE_TOPIC_PARTITIONS in self._connection.api_keys()
            return
        asked_ns = run_clock.now_ns()
        found = self._connection.describe(list(self._topics))
        at_ns = run_clock.now_ns()
        self._answers.extend(
            PartitionAnswer(
                topic=self._topics[one.topic],
                partition=one.partition,
                broker=self._broker,
                leader=one.leader,
                leader_epoch=one.leader_epoch,
                isr=one.isr,
                elr=one.elr,
                last_known_elr=one.last_known_elr,
                asked_ns=asked_ns,
                at_ns=at_ns,
            )
            for one in found
        )


_FLUSH_S = 0.02


class BrokerSampler(threading.Thread):
    """Asks one broker for every partition, repeatedly; observations go to `marks`."""

    def __init__(
        self, config: SamplerConfig, broker: int, marks: deque[tuple[int, ...]], stopping: threading.Event
    ) -> None:
        super().__init__(name=f"sampler-{broker}", daemon=True)
        self._broker = broker
        self._marks = marks
        self._stopping = stopping
        self._interval_s = config.interval_ms / 1000
        self._partitions = partitions_of(config.topics)
        self._topics = {name: index for index, name in enumerate(config.topics)}
        self._connection = connection_to(
            config.endpoints,
            config.brokers[broker],
            connect_timeout_s=config.connect_timeout_ms / 1000,
            request_timeout_s=config.request_timeout_ms / 1000,
        )

    def run(self) -> None:
        """Ask until stopped; ask a broker that does not answer again after the interval."""
        while not self._stopping.wait(self._interval_s):
            try:
                self._connection.connect()
                asked_ns = run_clock.now_ns()
                answers = self._connection.list_offsets(self._partitions, LATEST)
                at_ns = run_clock.now_ns()
            except WireError:
                continue
            for answer in answers:
                if answer.error == NONE and answer.offset >= 0:
                    epoch = -1 if answer.leader_epoch is None else answer.leader_epoch
                    topic = self._topics[answer.topic]
                    mark = (topic, answer.partition, self._broker, epoch, answer.offset, asked_ns, at_ns)
                    self._marks.append(mark)
        self._connection.close()


def partitions_of(topics: dict[str, int]) -> list[tuple[str, int]]:
    """Return every partition of `topics`, in the order of the status slots.

    A partition's slot holds the highest HW served so far plus one; 0 means none yet.
    """
    return [(name, partition) for name, count in topics.items() for partition in range(count)]


def run(config: SamplerConfig, status: StatusFile, stop: Stop) -> ClientState:
    """Sample until stopped. Raises `JournalError`."""
    journal = JournalWriter(Path(config.journal), JournalHeader(table="watermarks", topics=tuple(config.topics)))
    slots = {item: index for index, item in enumerate(partitions_of(config.topics))}
    names = list(config.topics)
    marks: deque[tuple[int, ...]] = deque()
    stopping = threading.Event()
    descriptions = JournalWriter(Path(config.described), JournalHeader(table="described", topics=tuple(config.topics)))
    described: deque[PartitionAnswer] = deque()
    threads: list[threading.Thread] = [BrokerSampler(config, broker, marks, stopping) for broker in config.brokers]
    threads += [BrokerDescriber(config, broker, described, stopping) for broker in config.brokers]
    commits, served = None, deque[ServedOffset]()
    if config.commits is not None:
        commits = JournalWriter(Path(config.commits), JournalHeader(table="commits", topics=tuple(config.topics)))
        threads += [BrokerOffsetReader(config, broker, served, stopping) for broker in config.brokers]
    for thread in threads:
        thread.start()
    status.set_state(ClientState.RUNNING)
    try:
        while True:
            # Read before the flush, so that the observations until the stop are still written.
            stopping_now = bool(stop)
            rows = array("q")
            for _ in range(len(marks)):
                mark = marks.popleft()
                rows.extend(mark)
                slot = slots[names[mark[0]], mark[1]]
                if mark[4] + 1 > status.get(slot):
                    status.put(slot, mark[4] + 1)
            if rows:
                journal.write([pack_watermarks(rows)])
            answers = [described.popleft() for _ in range(len(described))]
            if answers:
                descriptions.write([pack_described(answers)])
            if commits is not None and served:
                commits.write([pack_commits([served.popleft() for _ in range(len(served))])])
            if stopping_now:
                return ClientState.STOPPED
            pause(_FLUSH_S)
    finally:
        stopping.set()


def main(argv: Sequence[str]) -> int:
    """Run the sampler until it is stopped."""
    config = read_config(Path(argv[0]), SamplerConfig)
    return run_client(config.endpoints, sum(config.topics.values()), lambda status, stop: run(config, status, stop))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
