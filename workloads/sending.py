"""The common part of the producer processes: when records are due, and the loop until every one has an outcome."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kafka.partitioner import murmur2

from cluster.kafka_api.connection import WireError
from ebbtide.waiting import pause, wait_until
from workloads.config import ProducerConfig, read_config
from workloads.process import ClientState, StatusFile, Stop, run_client
from workloads.reaching import connection_to
from workloads.send_account import COUNTERS, Lane, SendAccount
from workloads.transactions import OneIncarnation, Transactions


def run_producer(argv: Sequence[str], run: Callable[[ProducerConfig, StatusFile, Stop], ClientState]) -> int:
    """Run the producer of the configuration file `argv[0]` to its end, and return the exit code."""
    config = read_config(Path(argv[0]), ProducerConfig)
    slots = len(COUNTERS) * config.partitions
    return run_client(config.endpoints, slots, lambda status, stop: run(config, status, stop))


def await_leaders(config: ProducerConfig, stop: Stop) -> tuple[str, ...]:
    """Wait until every partition of the topic has a leader; returns the brokers that answer.

    Empty when stopped meanwhile. Raises `WaitExpired` after `start_timeout_s`.
    """
    seen = "no broker answered"

    def ready() -> tuple[str, ...] | None:
        nonlocal seen
        if stop:
            return ("",)
        answering, led = [], 0
        for address in config.bootstrap:
            try:
                with connection_to(config.endpoints, address) as broker:
                    state = broker.metadata([config.topic])
            except WireError as error:
                seen = str(error)
                continue
            answering.append(address)
            led = max(led, sum(item.leader >= 0 for item in state.partitions.values()))
        if answering:
            seen = f"{led} of {config.partitions_at_start} partitions have a leader"
        return tuple(answering) if answering and led >= config.partitions_at_start else None

    bootstrap = wait_until(
        ready,
        awaited=f"a leader for every partition of {config.topic}",
        timeout_s=config.start_timeout_s,
        last_seen=lambda: seen,
        poll_s=0.1,
    )
    return () if stop else bootstrap


class PacedSender(ABC):
    """Hands records over within the bounds of count, rate and outstanding records.

    `number` counts what was handed over. `burst` is the most that is handed over between two readings of the clock.
    """

    burst = 100

    def __init__(self, config: ProducerConfig, sends: SendAccount[Lane]) -> None:
        self._config = config
        self._account = sends
        self.number = 0
        self._due_from = time.monotonic()
        self._due_number = 0

    @abstractmethod
    def send_burst(self, count: int) -> bool:
        """Hand over `count` records; False when the client refused one.

        The records after the refused one were not handed over.
        """

    def start_pace(self) -> None:
        """Let records be due from now on: a client that took long to start has nothing to catch up."""
        self._due_from, self._due_number = time.monotonic(), self.number

    @property
    def is_exhausted(self) -> bool:
        """Whether `count` records were handed over."""
        return self._config.count is not None and self.number >= self._config.count

    def due_records(self) -> int:
        """Return how many records may be handed over now, at most a burst."""
        room = self._config.max_outstanding - (self.number - self._account.answered_count)
        due = min(self.burst, room)
        if self._config.count is not None:
            due = min(due, self._config.count - self.number)
        if self._config.rate_per_s is not None:
            now = time.monotonic()
            if room <= 0:
                # Records that could not be sent in time are not caught up.
                self.start_pace()
            scheduled = self._due_number + int((now - self._due_from) * self._config.rate_per_s)
            due = min(due, scheduled - self.number)
        return max(0, due)


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition that kafka-python's and Kafka's default partitioners give a key."""
    hashed: int = murmur2(key)
    return (hashed & 0x7FFFFFFF) % partitions


def send_order(config: ProducerConfig, lanes: Sequence[Lane]) -> list[tuple[bytes | None, Lane]]:
    """Return key and partition of the first records; later records repeat the order."""
    if config.keys is None:
        return [(None, lane) for lane in lanes]
    # A record's sequence must be known before it is sent, so that the partition is computed here.
    keys = [b"key-%d" % number for number in range(config.keys)]
    return [(key, lanes[partition_of_key(key, len(lanes))]) for key in keys]


def send_all(
    config: ProducerConfig,
    sends: SendAccount[Lane],
    sending: PacedSender,
    status: StatusFile,
    stop: Stop,
    serve: Callable[[float], object] | None = None,
) -> ClientState:
    """Send until every record has an outcome, or until stopped; returns the state.

    A client without threads hands its answers out in `serve`. It is called after each burst, with the seconds that it
    may wait for an answer: 0 while records are due.
    """
    interval_s = config.flush_interval_ms / 1000
    idle_s = min(interval_s, 0.002)
    status.set_state(ClientState.RUNNING)
    flush_at = time.monotonic() + interval_s
    stop_at: float | None = None
    while True:
        count = 0 if stop_at is not None or sending.is_exhausted else sending.due_records()
        is_sent = count > 0 and sending.send_burst(count)
        if serve is not None:
            serve(0.0 if is_sent else idle_s)
        elif not is_sent:
            pause(idle_s)
        now = time.monotonic()
        if now < flush_at:
            continue
        flush_at = now + interval_s
        sends.flush()
        if stop_at is None and stop:
            stop_at = now + config.stop_timeout_s
        if sending.is_exhausted and not sends.outstanding_count:
            return ClientState.DONE
        if stop_at is not None and (not sends.outstanding_count or now >= stop_at):
            sends.abandon()
            return ClientState.STOPPED


_PAUSE_S = 0.005
"""Between two checks of a transaction that is ending: half a dozen round trips of the clients' network."""


def send_transactions(
    config: ProducerConfig,
    sends: SendAccount[Any],
    sending: PacedSender,
    transactions: Transactions[OneIncarnation],
    stop: Stop,
    serve: Callable[[], object] = lambda: None,
) -> ClientState:
    """Produce in transactions, until done or stopped; returns the last state.

    A stop ends the open transaction as it would have ended, with the records that it has. `serve` is called between
    two bursts: a client that this process hears from by a pipe hands its answers out there.
    """
    stop_at: float | None = None
    while True:
        finish = stop_at is not None or sending.is_exhausted
        count = 0 if finish else min(sending.due_records(), transactions.room())
        if count and transactions.begin():
            before = sending.number
            whole = sending.send_burst(count)
            transactions.count_handed(sending.number - before, whole=whole)
        else:
            pause(_PAUSE_S)
        serve()
        now = time.monotonic()
        if stop_at is None and stop:
            stop_at = now + config.stop_timeout_s
        sends.flush()
        transactions.advance(finish=finish)
        if sending.is_exhausted and transactions.is_idle:
            sends.flush()
            return ClientState.DONE
        if stop_at is not None and (transactions.is_idle or now >= stop_at):
            transactions.abandon()
            sends.abandon()
            return ClientState.STOPPED
