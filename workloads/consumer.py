"""A tailing consumer process: `python -m workloads.consumer CONFIG.json`; see `workloads.config.ConsumerConfig`.

It is assigned every partition of its topics, without a group, and reads from the log start. When the log is
truncated under it, it does what a careful application would, and the journal shows it as a new session:

- truncation with a known divergence point (KIP-320): it goes back to that point;
- its epoch is unknown to the leader: nothing it has read can be relied on, it reads again from the log start;
- the position lies beyond the log's end: it goes on from the end; before the log start: from the start.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, LogTruncationError, OffsetOutOfRangeError

from harness.waiting import pause
from workloads.config import ConsumerConfig, read_config
from workloads.journal import JournalHeader, JournalWriter
from workloads.payload import value_of
from workloads.process import Stop, run_client
from workloads.reading import Lane, answering, journal_poll, open_consumer
from workloads.sampler import partitions_of
from workloads.status import State, StatusFile

_POLL_MS = 50
_ASK_MS = 2_000


class Tail:
    """The positions of one consumer, and every time that they were set."""

    def __init__(self, consumer: KafkaConsumer, config: ConsumerConfig) -> None:
        self._consumer = consumer
        names = list(config.topics)
        partitions = [TopicPartition(*item) for item in partitions_of(config.topics)]
        self.lanes = {item: Lane(names.index(item.topic), item) for item in partitions}
        self._session = 0
        consumer.assign(partitions)

    def to_start(self) -> None:
        """Set every position to its log start, as the first session. Raises `KafkaError`."""
        starts = self._consumer.beginning_offsets(list(self.lanes), timeout_ms=_ASK_MS)
        self._session += 1
        for partition, offset in starts.items():
            self._seek(partition, offset)

    def after(self, error: LogTruncationError | OffsetOutOfRangeError) -> None:
        """Set the positions that `error` says are no longer valid. Raises `KafkaError` when it cannot ask."""
        if isinstance(error, LogTruncationError):
            moved = {item: None if at is None else at.offset for item, at in error.divergent_offsets.items()}
        else:
            moved = {item: self._within(item, offset) for item, offset in error.args[0].items()}
        for partition, known in moved.items():
            offset = known if known is not None else self._start_of(partition)
            self._session += 1
            self._seek(partition, offset)

    def _within(self, partition: TopicPartition, offset: int) -> int:
        start = self._start_of(partition)
        end: int = self._consumer.end_offsets([partition], timeout_ms=_ASK_MS)[partition]
        return start if offset < start else min(offset, end)

    def _start_of(self, partition: TopicPartition) -> int:
        offset: int = self._consumer.beginning_offsets([partition], timeout_ms=_ASK_MS)[partition]
        return offset

    def _seek(self, partition: TopicPartition, offset: int) -> None:
        self._consumer.seek(partition, offset)
        self.lanes[partition].reposition(self._session)


def run(config: ConsumerConfig, status: StatusFile, stop: Stop) -> State:
    """Read until told to stop. Raises `JournalError`, `WaitExpired` when no broker answers at the start."""
    header = JournalHeader(table="polls", id=config.id, topics=tuple(config.topics), isolation=config.isolation)
    journal = JournalWriter(Path(config.journal), header)
    bootstrap = answering(config.bootstrap, config.start_timeout_s, lambda: bool(stop))
    if not bootstrap:
        return State.STOPPED
    name = f"ebbtide-consumer-{config.id}"
    consumer = open_consumer(bootstrap, name, config.isolation, config.request_timeout_ms, config.start_timeout_s)
    tail = Tail(consumer, config)
    value = value_of(config.run_id)
    started = False
    while not stop:
        try:
            if not started:
                tail.to_start()
                started = True
                status.tell(State.RUNNING)
            returned = consumer.poll(timeout_ms=_POLL_MS)
        except (LogTruncationError, OffsetOutOfRangeError) as error:
            _recover(tail, error)
            continue
        except KafkaError:
            # Whatever the cluster refuses at the moment, a tailing consumer outlives it.
            pause(_POLL_MS / 1000)
            continue
        if returned:
            journal_poll(journal, tail.lanes, returned, value)
    return State.STOPPED


def _recover(tail: Tail, error: LogTruncationError | OffsetOutOfRangeError) -> None:
    try:
        tail.after(error)
    except KafkaError:
        # The positions are as they were, so the next poll raises the same again.
        pause(_POLL_MS / 1000)


def main(argv: Sequence[str]) -> int:
    """Run one consumer until it is stopped."""
    config = read_config(Path(argv[0]), ConsumerConfig)
    return run_client(config.endpoints, 0, lambda status, stop: run(config, status, stop))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
