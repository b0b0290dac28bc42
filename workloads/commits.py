"""A consumer's commits: each is journalled before it is sent, and its answer when it comes.

kafka-python sends a commit once, so that its answer decides it. librdkafka may send it again, so that only an ack does.
The next commit waits for the answer. A commit carries a number as its metadata: what a coordinator serves later shows
which commit it is.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from ebbtide import run_clock
from ebbtide.journal.commits import Commit, CommitAnswer, Entry, outcome_of_commit
from ebbtide.scenario.internal_topics import OFFSETS_PARTITION
from workloads.config import ConsumerConfig

COMMITS_OF_A_CONSUMER = 1_000_000_000
"""A commit's number is its consumer's id times this, plus how many commits the consumer made before."""
_COMMITS_OF_A_LIFE = 1_000_000
_PATIENCE_S = 10.0
"""How long the next commit waits for an answer; after that the commit stays unknown, whatever comes."""


def number_of(metadata: str) -> int | None:
    """Return the number of the commit that carries this metadata; None for a commit of another client.

    confluent-kafka sends the byte that ends a text in C, too.
    """
    metadata = metadata.removesuffix("\0")
    return int(metadata) if metadata.isascii() and metadata.isdigit() and len(metadata) < 19 else None


class Committer:
    """Commits after every `commit_every` records; `write` journals entries.

    The client calls back on its own event loop, maybe on another thread, so that answers are kept and journalled here.
    """

    def __init__(self, consumer: KafkaConsumer, config: ConsumerConfig, write: Callable[[list[Entry]], None]) -> None:
        assert config.group is not None
        self._consumer = consumer
        self._group = config.group
        self._id = config.id
        self._every = config.commit_every
        self._topics = {name: index for index, name in enumerate(config.topics)}
        self._write = write
        self._returned = 0
        self._made = config.life * _COMMITS_OF_A_LIFE
        self._waits_for: int | None = None
        self._waits_until = 0.0
        self._answers: deque[CommitAnswer] = deque()

    def count_returned(self, count: int, positions: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """Count journalled records; when it is time, commit the positions."""
        self._returned += count
        self.apply()
        if self._every is None or self._returned < self._every:
            return
        if self._waits_for is not None and time.monotonic() < self._waits_until:
            return
        self.commit(positions())

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Journal and send a commit of these positions, which are the next offsets to read."""
        if not positions:
            return
        self._returned = 0
        number = self._id * COMMITS_OF_A_CONSUMER + self._made
        self._made += 1
        asked_ns = run_clock.now_ns()
        self._write(
            [
                Commit(
                    group=self._group,
                    topic=self._topics[one.topic],
                    partition=one.partition,
                    commit=number,
                    offset=offset,
                    consumer=self._id,
                    offsets_partition=OFFSETS_PARTITION,
                    asked_ns=asked_ns,
                )
                for one, offset in positions.items()
            ]
        )
        self._waits_for, self._waits_until = number, time.monotonic() + _PATIENCE_S

        def keep(_offsets: object, answer: Any) -> None:
            row = outcome_of_commit(answer if isinstance(answer, BaseException) else None)
            error = row.name if isinstance(answer, BaseException) else None
            self._answers.append(
                CommitAnswer(commit=number, status=row.outcome, error=error, done_ns=run_clock.now_ns())
            )

        wanted = {one: OffsetAndMetadata(offset, str(number), -1) for one, offset in positions.items()}
        self._consumer.commit_async(wanted, callback=keep)

    @property
    def is_waiting(self) -> bool:
        """Whether the last commit has no answer yet."""
        return self._waits_for is not None

    def apply(self) -> None:
        """Journal the answers since the last call."""
        answers = [self._answers.popleft() for _ in range(len(self._answers))]
        if not answers:
            return
        if any(one.commit == self._waits_for for one in answers):
            self._waits_for = None
        self._write([*answers])
