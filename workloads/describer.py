"""Asks every broker how its metadata cache describes the partitions (KIP-966).

The description has ISR, ELR and last known ELR. DescribeTopicPartitions (API 75, from 3.8 on) is answered from the
broker's own image of the metadata log, which lags behind the controller's. Each broker has one thread and one
connection, as for the HW.
"""

from __future__ import annotations

import threading
from collections import deque

from cluster.kafka_api.connection import DESCRIBE_TOPIC_PARTITIONS, WireError
from ebbtide import run_clock
from ebbtide.journal.descriptions import PartitionAnswer
from workloads.config import SamplerConfig
from workloads.reaching import connection_to


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
