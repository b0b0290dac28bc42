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

import contextlib
import sys
import threading
from abc import ABC, abstractmethod
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cluster.kafka_api.connection import DESCRIBE_TOPIC_PARTITIONS, LATEST, NONE, WireError
from cluster.kafka_api.group_offsets import committed_offsets
from ebbtide import run_clock
from ebbtide.journal.commits import PartitionAnswer, ServedOffset, pack_commits, pack_described
from ebbtide.journal.file import JournalHeader, JournalWriter
from ebbtide.journal.frames import pack_watermarks
from ebbtide.logs.segments import TopicPartition
from ebbtide.scenario.internal_topics import OFFSETS_PARTITION
from ebbtide.scenario.model import ConsumerSpec, ProducerSpec
from ebbtide.waiting import pause
from workloads.commits import number_of
from workloads.config import SamplerConfig, read_config
from workloads.process import ClientState, StatusFile, Stop, run_client
from workloads.reaching import connection_to


class BrokerAsker(threading.Thread, ABC):
    """Asks one broker repeatedly, on a connection of its own; what it says goes to `answers`."""

    def __init__(self, config: SamplerConfig, broker: int, answers: deque[Any], stopping: threading.Event) -> None:
        super().__init__(name=f"{type(self).__name__}-{broker}", daemon=True)
        self._config = config
        self._broker = broker
        self._answers = answers
        self._stopping = stopping
        self._topics = {name: index for index, name in enumerate(config.topics)}
        self._connection = connection_to(
            config.endpoints,
            config.brokers[broker],
            connect_timeout_s=config.connect_timeout_ms / 1000,
            request_timeout_s=config.request_timeout_ms / 1000,
        )

    def run(self) -> None:
        """Ask until stopped, and once more then; ask a broker that does not answer again after the interval.

        The sampler stops last. What a member of a group committed as it ended is therefore asked for, too.
        """
        is_last = False
        try:
            while not is_last:
                is_last = self._stopping.wait(self._interval_ms() / 1000)
                with contextlib.suppress(WireError):
                    self._connection.connect()
                    if not self._ask():
                        break
        finally:
            self._connection.close()

    def _interval_ms(self) -> int:
        return self._config.interval_ms

    @abstractmethod
    def _ask(self) -> bool:
        """Ask once, and return whether to ask again. Raises `WireError`."""


class BrokerDescriber(BrokerAsker):
    """Asks one broker how it describes every topic. It ends where the broker does not support the API."""

    _speaks = False

    def _interval_ms(self) -> int:
        return self._config.describe_interval_ms

    def _ask(self) -> bool:
        if not self._speaks:
            self._speaks = DESCRIBE_TOPIC_PARTITIONS in self._connection.api_keys()
            return self._speaks
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
        return True


_FLUSH_S = 0.02


class BrokerSampler(BrokerAsker):
    """Asks one broker for the ends of every partition."""

    def _ask(self) -> bool:
        asked_ns = run_clock.now_ns()
        answers = self._connection.list_offsets(partitions_of(self._config.topics), LATEST)
        at_ns = run_clock.now_ns()
        for answer in answers:
            if answer.error == NONE and answer.offset >= 0:
                epoch = -1 if answer.leader_epoch is None else answer.leader_epoch
                topic = self._topics[answer.topic]
                self._answers.append((topic, answer.partition, self._broker, epoch, answer.offset, asked_ns, at_ns))
        return True


def groups_to_ask(producers: Iterable[ProducerSpec], consumers: Iterable[ConsumerSpec]) -> dict[str, tuple[str, ...]]:
    """Return the groups whose offsets the record needs, and their topics: those of copiers, and with `commit_every`."""
    groups: dict[str, tuple[str, ...]] = {}
    for copier in producers:
        if copier.group and copier.copies:
            groups[copier.group] = (*groups.get(copier.group, ()), copier.copies)
    for member in consumers:
        if member.group and member.commit_every is not None:
            groups[member.group] = (*groups.get(member.group, ()), *member.topics)
    return {group: tuple(dict.fromkeys(topics)) for group, topics in groups.items()}


class BrokerOffsetReader(BrokerAsker):
    """Asks one broker for the offsets of every group.

    Only a group's coordinator answers, so asking every broker needs no knowledge of who coordinates. A deposed
    coordinator that does not know it yet answers too; the reconciliation compares the broker with the metadata log.
    """

    def _ask(self) -> bool:
        for group, topics in self._config.groups.items():
            self._ask_one(group, topics)
        return True

    def _ask_one(self, group: str, topics: tuple[str, ...]) -> None:
        asked_ns = run_clock.now_ns()
        found = committed_offsets(self._connection, group)
        done_ns = run_clock.now_ns()
        for topic in topics if found is not None else ():
            for partition in range(self._config.topics[topic]):
                one = (found or {}).get(TopicPartition(topic, partition))
                self._answers.append(
                    ServedOffset(
                        group=group,
                        topic=self._topics[topic],
                        partition=partition,
                        commit=None if one is None else number_of(one.metadata),
                        offset=None if one is None else one.offset,
                        broker=self._broker,
                        offsets_partition=OFFSETS_PARTITION,
                        asked_ns=asked_ns,
                        done_ns=done_ns,
                    )
                )


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
            # Read before the flush, so that the last observations are still written.
            stopping_now = bool(stop)
            if stopping_now:
                stopping.set()
                for thread in threads:  # their last answers; none waits longer for a broker that says nothing
                    thread.join((config.connect_timeout_ms + config.request_timeout_ms) / 1000)
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
