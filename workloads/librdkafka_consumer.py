"""A tailing consumer process that reads with librdkafka, through confluent-kafka.

`python -m ebbtide.command workloads.librdkafka_consumer CONFIG.json`, whose configuration is a
`workloads.config.ConsumerConfig`.

Positions, sessions, commits and reset policies are those of `workloads.consumer`, which sees librdkafka's consumer
through `LibrdkafkaReader`. librdkafka itself never resets a position (`auto.offset.reset=error`): it reports the
partition, and `workloads.consumer` moves the position and journals the move.
"""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, NoReturn

import confluent_kafka as rdkafka
from kafka import TopicPartition
from kafka.errors import KafkaError, LogTruncationError, NoOffsetForPartitionError, OffsetOutOfRangeError
from kafka.structs import OffsetAndMetadata

from ebbtide.journal.commits import LastCommitAnswer
from workloads import consumer
from workloads.config import ConsumerConfig
from workloads.library_settings import librdkafka_consumer_settings
from workloads.librdkafka_producer import name_of_error
from workloads.reaching import refused_settings
from workloads.rebalances import Listener

_END_OF_LOG = re.compile(r"broker end offset is (\d+)")
_MAX_RECORDS = 2_000
"""A consumer that takes time to handle a record polls one: a poll stores what the next automatic commit commits."""
_FATAL = "_FATAL"
"""librdkafka's name for an error after which a client does nothing any more."""


class LibrdkafkaError(KafkaError):  # type: ignore[misc]
    """What librdkafka cannot do now."""


class Read(NamedTuple):
    """A record that librdkafka returned, with the names of kafka-python's records."""

    offset: int
    leader_epoch: int
    value: bytes | None


class LibrdkafkaReader:
    """librdkafka's consumer, with the methods of kafka-python's consumer that `workloads.consumer` calls.

    A fatal error ends librdkafka's consumer, for example when the coordinator does not know the group any more. The
    next poll opens another one, as an application must.

    librdkafka calls back in the middle of a poll. Records that came before a rebalance and records that came after it
    are therefore returned by different polls, and the listener is called between them.
    """

    def __init__(self, config: ConsumerConfig, bootstrap: Sequence[str]) -> None:
        own = {
            "bootstrap.servers": ",".join(bootstrap),
            "client.id": f"ebbtide-consumer-{config.id}",
            "on_commit": self._note_commit,
        }
        self._open = partial(rdkafka.Consumer, {**librdkafka_consumer_settings(config), **own})
        try:
            self._consumer = self._open()
        except rdkafka.KafkaException as error:
            raise refused_settings("librdkafka", f"consumer {config.id}", error.args[0].str()) from None
        self._most = 1 if config.handle_ms else _MAX_RECORDS
        self._is_dead = False
        self._topics: list[str] = []
        self._listener: Listener | None = None
        self._is_eager = config.group is not None and config.group_protocol == "classic"
        self._next: dict[TopicPartition, int] = {}
        self._rebalances: deque[Callable[[], None]] = deque()
        self._held: deque[rdkafka.Message] = deque()
        self._commits: dict[str, Callable[[object, Any], None]] = {}

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Read these partitions, each once its position is sought."""

    def subscribe(self, *, topics: Sequence[str], listener: Listener) -> None:
        """Join the group; `listener` is called at each rebalance."""
        self._topics, self._listener = list(topics), listener
        self._join(listener)

    def _join(self, listener: Listener) -> None:
        def on_assigned(_consumer: object, found: list[rdkafka.TopicPartition]) -> None:
            self._rebalances.append(partial(self._gain, _own(found), listener))

        def on_revoked(_consumer: object, found: list[rdkafka.TopicPartition]) -> None:
            self._rebalances.append(partial(self._lose, _own(found), listener))

        self._consumer.subscribe(self._topics, on_assign=on_assigned, on_revoke=on_revoked, on_lost=on_revoked)

    def unsubscribe(self) -> None:
        """Leave the group."""
        self._consumer.unsubscribe()

    def continue_rebalance(self) -> None:
        """librdkafka continues a rebalance by itself."""

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that this consumer reads and that the listener knows to be assigned."""
        return set(_own(self._consumer.assignment())) & self._next.keys()

    def beginning_offsets(self, partitions: Iterable[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        """Return the log starts. Raises `LibrdkafkaError`."""
        return {one: self._ends_of(one, timeout_ms)[0] for one in partitions}

    def end_offsets(self, partitions: Iterable[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        """Return the ends of what this consumer may read. Raises `LibrdkafkaError`."""
        return {one: self._ends_of(one, timeout_ms)[1] for one in partitions}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue this partition at `offset`. Raises `LibrdkafkaError`.

        librdkafka no longer reads a partition whose position it reported, and refuses to seek there. So the partition
        is assigned again.
        """
        self._next[partition] = offset
        self._held = deque(one for one in self._held if _place_of(one) != partition)
        with _as_kafka_error():
            if self._is_eager:
                # Of all partitions, since this protocol assigns them together.
                self._consumer.assign([_theirs(one, to) for one, to in self._next.items()])
                return
            if partition in self.assignment():
                self._consumer.incremental_unassign([_theirs(partition)])
            self._consumer.incremental_assign([_theirs(partition, offset)])

    def poll(self, *, timeout_ms: int, max_records: int | None) -> dict[TopicPartition, list[Read]]:
        """Return the records that came, by partition.

        Raises kafka-python's error for a position that is not in the log, or `LibrdkafkaError`.
        """
        if self._is_dead:
            self._reopen()
        self._apply_rebalances()
        returned: dict[TopicPartition, list[Read]] = {}
        for _ in range(self._most if max_records is None else min(self._most, max_records)):
            wait_s = 0.0 if returned else timeout_ms / 1000
            message = self._held.popleft() if self._held else self._consumer.poll(wait_s)
            if message is None:
                break
            if returned and (self._rebalances or message.error()):
                self._held.append(message)
                break
            self._apply_rebalances()
            if (error := message.error()) is not None:
                self._is_dead = error.code() == rdkafka.KafkaError._FATAL
                raise self._error_of(error, message)
            at, record = _place_of(message), _record_of(message)
            returned.setdefault(at, []).append(record)
            self._next[at] = record.offset + 1
        if not returned:
            self._apply_rebalances()
        return returned

    def shut_down(self, handled: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Commit, unless Ebbtide commits, and leave the group."""
        with _as_kafka_error():
            self._consumer.close()

    def commit(self, *, timeout_ms: int) -> None:
        """Commit the positions; librdkafka limits the wait. Raises `LibrdkafkaError`."""
        with _as_kafka_error():
            self._consumer.commit(asynchronous=False)

    def commit_async(
        self, wanted: Mapping[TopicPartition, OffsetAndMetadata], callback: Callable[[object, Any], None]
    ) -> None:
        """Commit these positions, which have the same metadata; a later poll calls `callback` with the answer."""
        offsets = [_theirs(one, to.offset, to.metadata) for one, to in wanted.items()]
        self._commits[offsets[0].metadata or ""] = callback
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        except rdkafka.KafkaException as error:
            self._note_commit(error.args[0], offsets)

    def _note_commit(self, error: rdkafka.KafkaError | None, offsets: list[rdkafka.TopicPartition]) -> None:
        errors = [one for one in (error, *(offset.error for offset in offsets)) if one is not None]
        callback = self._commits.pop(offsets[0].metadata or "", None) if offsets else None
        # Without a callback: the client's own commit.
        if callback is not None:
            callback(None, LastCommitAnswer(name_of_error(errors[0])) if errors else None)

    def _reopen(self) -> None:
        """Open a new consumer in place of one that a fatal error ended."""
        self._is_dead = False
        self._apply_rebalances()
        self._held.clear()
        while self._commits:
            self._commits.popitem()[1](None, LastCommitAnswer(_FATAL))
        self._consumer = self._open()
        if self._listener is None:
            self._consumer.incremental_assign([_theirs(one, to) for one, to in self._next.items()])
        else:
            if self._next:
                self._lose(list(self._next), self._listener)
            self._join(self._listener)

    def _apply_rebalances(self) -> None:
        while self._rebalances:
            self._rebalances.popleft()()

    def _gain(self, partitions: list[TopicPartition], listener: Listener) -> None:
        self._next |= dict.fromkeys(partitions, rdkafka.OFFSET_STORED)
        listener.on_partitions_assigned(partitions)

    def _lose(self, partitions: list[TopicPartition], listener: Listener) -> None:
        for one in partitions:
            self._next.pop(one, None)
        listener.on_partitions_revoked(partitions)

    def _ends_of(self, partition: TopicPartition, timeout_ms: int) -> tuple[int, int]:
        with _as_kafka_error():
            ends = self._consumer.get_watermark_offsets(_theirs(partition), timeout=timeout_ms / 1000, cached=False)
            if ends is None:
                raise LibrdkafkaError("no answer in time")
            return int(ends[0]), int(ends[1])

    def _error_of(self, error: rdkafka.KafkaError, message: rdkafka.Message) -> KafkaError:
        """Return kafka-python's error for the same state of a partition."""
        if error.code() != rdkafka.KafkaError._AUTO_OFFSET_RESET:
            return LibrdkafkaError(name_of_error(error))
        at, text = _place_of(message), str(error.str())
        if "log truncation" in text:
            # Only the text has the offset up to which the log agrees.
            end = _END_OF_LOG.search(text)
            return LogTruncationError({at: OffsetAndMetadata(int(end[1]), "", -1) if end else None})
        offset = message.offset()
        if offset is None or offset < 0:
            offset = self._next.get(at, rdkafka.OFFSET_INVALID)
        return OffsetOutOfRangeError({at: offset}) if offset >= 0 else NoOffsetForPartitionError([at])


def _place_of(message: rdkafka.Message) -> TopicPartition:
    return TopicPartition(message.topic(), message.partition())


def _record_of(message: rdkafka.Message) -> Read:
    offset, epoch = message.offset(), message.leader_epoch()
    assert offset is not None
    return Read(offset, -1 if epoch is None else epoch, message.value())


def _theirs(at: TopicPartition, offset: int = rdkafka.OFFSET_INVALID, metadata: str = "") -> rdkafka.TopicPartition:
    return rdkafka.TopicPartition(at.topic, at.partition, offset, metadata)


def _own(partitions: Iterable[rdkafka.TopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(one.topic, one.partition) for one in partitions]


@contextmanager
def _as_kafka_error() -> Iterator[None]:
    try:
        yield
    except rdkafka.KafkaException as error:
        raise LibrdkafkaError(str(error.args[0])) from None


def main(argv: Sequence[str]) -> NoReturn:
    """Run one consumer until it is stopped, and end this process."""
    code = consumer.main(argv, LibrdkafkaReader)
    sys.stderr.flush()
    # As kafka-python's consumer, it ends without leaving its group, and without another commit.
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
