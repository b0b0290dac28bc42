"""Asks every broker what the run's groups have committed.

Only a group's coordinator answers, so asking every broker needs no knowledge of who coordinates. A deposed coordinator
that does not know it yet answers too; the reconciliation compares the broker with the metadata log. Each broker has one
thread and one connection, as for the HW.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterable

from cluster.kafka_api.connection import WireError
from cluster.kafka_api.group_offsets import committed_offsets
from ebbtide import run_clock
from ebbtide.journal.commits import ServedOffset
from ebbtide.logs.segments import TopicPartition
from ebbtide.scenario.internal_topics import OFFSETS_PARTITION
from ebbtide.scenario.model import ConsumerSpec, ProducerSpec
from workloads.commits import number_of
from workloads.config import SamplerConfig
from workloads.reaching import connection_to


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


class BrokerOffsetReader(threading.Thread):
    """Asks one broker for the offsets of every group, repeatedly."""

    def __init__(
        self, config: SamplerConfig, broker: int, answers: deque[ServedOffset], stopping: threading.Event
    ) -> None:
        super().__init__(name=f"group-offsets-{broker}", daemon=True)
        self._broker = broker
        self._answers = answers
        self._stopping = stopping
        self._groups = config.groups
        self._interval_s = config.interval_ms / 1000
        self._topics = {name: index for index, name in enumerate(config.topics)}
        self._counts = config.topics
        self._connection = connection_to(
            config.endpoints,
            config.brokers[broker],
            connect_timeout_s=config.connect_timeout_ms / 1000,
            request_timeout_s=config.request_timeout_ms / 1000,
        )

    def run(self) -> None:
        """Ask until stopped; ask a broker that does not answer again after the interval."""
        try:
            while not self._stopping.wait(self._interval_s):
                with contextlib.suppress(WireError):
                    for group, topics in self._groups.items():
                        self._ask(group, topics)
        finally:
            self._connection.close()

    def _ask(self, group: str, topics: tuple[str, ...]) -> None:
        """Ask once for one group. Raises `WireError`."""
        self._connection.connect()
        asked_ns = run_clock.now_ns()
        found = committed_offsets(self._connection, group)
        done_ns = run_clock.now_ns()
        for topic in topics if found is not None else ():
            for partition in range(self._counts[topic]):
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
