"""A tailing consumer process.

`python -m ebbtide.command workloads.consumer CONFIG.json`, whose configuration is a
`workloads.config.ConsumerConfig`.

It reads every partition of its topics from the log start. As a member of a group it reads the partitions that it is
assigned, from the group's committed offsets. With `commit_every` it journals its commits. With `handle_ms` it handles
the records of a poll one by one, and journals each once it is handled: what a kill leaves of a poll has no row.

When its position is no longer in the log, it moves the position by its reset policy. The journal shows that as a new
session and an event:

- Truncation with a known divergence point (KIP-320): back to that point, whatever the policy.
- Truncation where the leader does not know the epoch of what was read, or a position out of the log's range:
  `earliest` reads again from the log start; `latest` continues at the end. `none`, a careful application, reads again
  from the start where nothing that it has read can be relied on. Otherwise it continues as near as possible: at the
  end if its position was beyond the end, at the start if before the start.
- A group without a committed offset: from the log start; `latest` from the end.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import (
    InvalidSessionTimeoutError,
    KafkaConfigurationError,
    KafkaError,
    LogTruncationError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)

from ebbtide import run_clock
from ebbtide.journal.commits import pack_commits
from ebbtide.journal.file import JournalHeader, JournalWriter
from ebbtide.journal.frames import pack_event
from ebbtide.journal.payload import value_of
from ebbtide.record.clients import ClientEvent, Event
from ebbtide.waiting import pause
from workloads.commits import Committer
from workloads.config import ConsumerConfig, read_config
from workloads.process import ClientState, StatusFile, Stop, run_client
from workloads.reaching import refused_settings
from workloads.reading import ReadPartition, RejoiningConsumer, journal_poll, open_consumer, wait_for_brokers
from workloads.rebalances import Membership
from workloads.sampler import partitions_of
from workloads.settings import consumer_settings

_SESSIONS_OF_A_LIFE = 1_000_000
_POLL_MS = 50
_ASK_MS = 2_000
_SHUT_DOWN_S = 2.0


class Tail:
    """The positions of one consumer; each change of a position begins a session.

    `write_event` journals an event. The consumer is assigned its partitions here, unless it is in a group.
    """

    def __init__(
        self, consumer: KafkaConsumer, config: ConsumerConfig, write_event: Callable[[ClientEvent], None]
    ) -> None:
        self._consumer = consumer
        self._policy = config.auto_offset_reset
        self._write_event = write_event
        names = list(config.topics)
        partitions = [TopicPartition(*item) for item in partitions_of(config.topics)]
        self.lanes = {item: ReadPartition(names.index(item.topic), item) for item in partitions}
        self._session = config.life * _SESSIONS_OF_A_LIFE
        if config.group is None:
            consumer.assign(partitions)

    def seek_to_start(self) -> None:
        """Seek every position to the start of the first session. Raises `KafkaError`.

        The start is the log's, or with the policy `latest` its end.
        """
        ask = self._consumer.end_offsets if self._policy == "latest" else self._consumer.beginning_offsets
        starts = ask(list(self.lanes), timeout_ms=_ASK_MS)
        self._session += 1
        for partition, offset in starts.items():
            self._seek(partition, offset)

    def begin_session(self, partitions: Sequence[TopicPartition]) -> None:
        """Begin a session for partitions that the group assigned to this member.

        It begins at the committed offsets.
        """
        self._session += 1
        for partition in partitions:
            self.lanes[partition].reposition(self._session)

    def positions(self) -> dict[TopicPartition, int]:
        """Return the next offset of each partition that this member has, and has read from in this session."""
        mine = self._consumer.assignment()
        return {one: lane.previous + 1 for one, lane in self.lanes.items() if one in mine and lane.previous >= 0}

    def move_after(self, error: KafkaError) -> None:
        """Move the positions that `error` reports as invalid.

        Raises `KafkaError` when the broker cannot be asked.
        """
        if isinstance(error, LogTruncationError):
            for partition, at in error.divergent_offsets.items():
                to = self._reset_offset(partition) if at is None else at.offset
                self._move("truncation", partition, None, to)
        elif isinstance(error, NoOffsetForPartitionError):
            for partition in sorted(error.args[0]):
                self._move("no-offset", partition, None, self._reset_offset(partition))
        else:
            for partition, offset in error.args[0].items():
                to = (
                    self._nearest_offset(partition, offset) if self._policy == "none" else self._reset_offset(partition)
                )
                self._move("out-of-range", partition, offset, to)

    def _reset_offset(self, partition: TopicPartition) -> int:
        return self._log_end(partition) if self._policy == "latest" else self._log_start(partition)

    def _nearest_offset(self, partition: TopicPartition, offset: int) -> int:
        start = self._log_start(partition)
        return start if offset < start else min(offset, self._log_end(partition))

    def _log_start(self, partition: TopicPartition) -> int:
        offset: int = self._consumer.beginning_offsets([partition], timeout_ms=_ASK_MS)[partition]
        return offset

    def _log_end(self, partition: TopicPartition) -> int:
        offset: int = self._consumer.end_offsets([partition], timeout_ms=_ASK_MS)[partition]
        return offset

    def _move(self, event: Event, partition: TopicPartition, offset: int | None, to: int) -> None:
        if offset is None and self.lanes[partition].previous >= 0:
            offset = self.lanes[partition].previous + 1
        self._session += 1
        self._seek(partition, to)
        self._write_event(
            ClientEvent(
                event=event,
                at_ns=run_clock.now_ns(),
                topic=partition.topic,
                partition=partition.partition,
                offset=offset,
                to=to,
                why=f"auto_offset_reset {self._policy}",
            )
        )

    def _seek(self, partition: TopicPartition, offset: int) -> None:
        self._consumer.seek(partition, offset)
        self.lanes[partition].reposition(self._session)


class Pace:
    """Limits how many records a slow consumer may read now."""

    def __init__(self, rate_per_s: float | None) -> None:
        self._rate = rate_per_s
        self._allowed = 0.0
        self._at = time.monotonic()

    def allowance(self) -> int | None:
        """Return how many records may be read, at most a second's worth; None: any number."""
        if self._rate is None:
            return None
        now = time.monotonic()
        self._allowed = min(self._allowed + (now - self._at) * self._rate, self._rate)
        self._at = now
        return int(self._allowed)

    def count_returned(self, count: int) -> None:
        """Count `count` records that a poll returned."""
        if self._rate is not None:
            self._allowed -= count


OpenReader = Callable[[ConsumerConfig, Sequence[str]], Any]
"""Opens the client library's consumer with these brokers. It has the methods of `RejoiningConsumer` that are used."""


def run(config: ConsumerConfig, status: StatusFile, stop: Stop, open_reader: OpenReader) -> ClientState:
    """Read until stopped.

    Raises `JournalError`, `WaitExpired` when no broker answers at the start.
    """
    header = JournalHeader(table="polls", id=config.id, topics=tuple(config.topics), isolation=config.isolation)
    journal = JournalWriter(Path(config.journal), header, config.life)
    bootstrap = wait_for_brokers(config.endpoints, config.bootstrap, config.start_timeout_s, lambda: bool(stop))
    if not bootstrap:
        return ClientState.STOPPED
    consumer = open_reader(config, bootstrap)

    def write_event(event: ClientEvent) -> None:
        journal.write([pack_event(event)])

    tail = Tail(consumer, config, write_event)
    committer = _open_committer(consumer, config)
    commit = None if committer is None else lambda: committer.commit(tail.positions())
    membership = None if config.group is None else Membership(consumer, config, tail.begin_session, write_event, commit)
    value, pace = value_of(config.run_id), Pace(config.max_rate_per_s)
    started = False
    while not stop:
        if committer is not None:
            committer.apply()
        allowed = pace.allowance()
        if allowed == 0:
            pause(_POLL_MS / 1000)
            continue
        try:
            if not started:
                if membership is None:
                    tail.seek_to_start()
                started = True
                status.set_state(ClientState.RUNNING)
            returned = consumer.poll(timeout_ms=_POLL_MS, max_records=allowed)
        except (LogTruncationError, OffsetOutOfRangeError, NoOffsetForPartitionError) as error:
            if membership is not None:
                membership.apply()
            _recover(tail, error)
            continue
        except InvalidSessionTimeoutError as error:
            raise refused_settings("a broker", f"consumer {config.id}", str(error)) from None
        except KafkaError:
            # A tailing consumer outlives whatever the cluster refuses at the moment.
            pause(_POLL_MS / 1000)
            continue
        if membership is not None:
            membership.apply()
        if committer is not None and config.commit_when == "before-handling":
            committer.count_returned(sum(map(len, returned.values())), partial(_ends_of, returned))
        handled = 0
        for some in one_by_one(returned, config.handle_ms / 1000, stop) if config.handle_ms else (returned,):
            if some:
                journal_poll(journal, tail.lanes, some, value)
            count = sum(map(len, some.values()))
            handled += count
            if committer is not None and config.commit_when == "after-handling":
                committer.count_returned(count, tail.positions)
        pace.count_returned(handled)
        if membership is not None and handled:
            membership.count_returned(handled)
    if membership is not None and stop.is_leaving:
        _shut_down(consumer, tail, committer)
    if committer is not None:
        committer.apply()
    return ClientState.STOPPED


def _shut_down(consumer: Any, tail: Tail, committer: Committer | None) -> None:
    """Commit what was handled, and leave the group, as an application that is shut down."""
    handled, until = tail.positions(), time.monotonic() + _SHUT_DOWN_S
    if committer is not None:
        committer.commit(handled)
        while committer.is_waiting and time.monotonic() < until:
            with contextlib.suppress(KafkaError):
                consumer.poll(timeout_ms=_POLL_MS, max_records=1)
            committer.apply()
    with contextlib.suppress(KafkaError):
        consumer.shut_down(handled, _SHUT_DOWN_S)


def one_by_one(
    returned: Mapping[TopicPartition, Sequence[Any]], handle_s: float, stop: Stop
) -> Iterator[dict[TopicPartition, list[Any]]]:
    """Yield each record of a poll once it is handled; a consumer that is to stop handles no more."""
    for partition, records in returned.items():
        for record in records:
            pause(handle_s)
            yield {partition: [record]}
            if stop:
                return


def _ends_of(returned: Mapping[TopicPartition, Sequence[Any]]) -> dict[TopicPartition, int]:
    return {partition: records[-1].offset + 1 for partition, records in returned.items()}


def _open_committer(consumer: KafkaConsumer, config: ConsumerConfig) -> Committer | None:
    """Return what commits and journals it; None where the client commits by itself, or not at all."""
    if config.commit_every is None or config.commits_journal is None:
        return None
    header = JournalHeader(table="commits", id=config.id, topics=tuple(config.topics))
    journal = JournalWriter(Path(config.commits_journal), header, config.life)
    return Committer(consumer, config, lambda entries: journal.write([pack_commits(entries)]))


def _recover(tail: Tail, error: KafkaError) -> None:
    try:
        tail.move_after(error)
    except KafkaError:
        # The positions are unchanged, so that the next poll raises the same error again.
        pause(_POLL_MS / 1000)


def _open_kafka_python(config: ConsumerConfig, bootstrap: Sequence[str]) -> RejoiningConsumer:
    try:
        return open_consumer(config.endpoints, bootstrap, f"ebbtide-consumer-{config.id}", consumer_settings(config))
    except (KafkaConfigurationError, ValueError) as error:
        raise refused_settings("kafka-python", f"consumer {config.id}", str(error)) from None


def main(argv: Sequence[str], open_reader: OpenReader = _open_kafka_python) -> int:
    """Run one consumer until it is stopped."""
    config = read_config(Path(argv[0]), ConsumerConfig)
    return run_client(config.endpoints, 0, lambda status, stop: run(config, status, stop, open_reader))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
