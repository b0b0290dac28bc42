"""A consumer journals each commit before it is sent, waits for its answer, and knows its commits again."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import NotCoordinatorError

from cluster.kafka_api.group_offsets import CommittedOffset
from ebbtide.journal.commits import Commit, CommitAnswer, Entry, ServedOffset
from ebbtide.logs.segments import TopicPartition as Partition
from workloads import sampler
from workloads.commits import Committer, number_of
from workloads.config import ConsumerConfig, Endpoints, SamplerConfig
from workloads.sampler import BrokerOffsetReader
from workloads.settings import consumer_settings

POSITIONS = {TopicPartition("t", 0): 10, TopicPartition("t", 1): 20}


class Consumer:
    """Stands for a KafkaConsumer; `journalled` is what the journal has when a commit is sent."""

    def __init__(self, journal: list[Entry]) -> None:
        self._journal = journal
        self.sent: list[tuple[dict[TopicPartition, Any], Callable[[object, object], None]]] = []
        self.journalled: list[int] = []

    def commit_async(self, offsets: dict[TopicPartition, Any], callback: Callable[[object, object], None]) -> None:
        self.journalled.append(len(self._journal))
        self.sent.append((offsets, callback))


def _config(commit_every: int | None = 100) -> ConsumerConfig:
    return ConsumerConfig(
        endpoints=Endpoints(status="", stop=""),
        journal="",
        run_id="run",
        bootstrap=(),
        id=3,
        topics={"t": 2},
        group="g",
        commit_every=commit_every,
    )


def _committer() -> tuple[Committer, Consumer, list[Entry]]:
    journal: list[Entry] = []
    consumer = Consumer(journal)
    return Committer(consumer, _config(), journal.extend), consumer, journal


def test_a_commit_is_journalled_before_it_is_sent_and_carries_its_number() -> None:
    committer, consumer, journal = _committer()
    committer.count_returned(99, lambda: POSITIONS)
    assert consumer.sent == []
    committer.count_returned(1, lambda: POSITIONS)
    ((offsets, _),) = consumer.sent
    assert consumer.journalled == [2]
    assert [(one.partition, one.offset) for one in journal if isinstance(one, Commit)] == [(0, 10), (1, 20)]
    assert {number_of(one.metadata) for one in offsets.values()} == {3_000_000_000}


def test_the_next_commit_waits_for_the_answer() -> None:
    committer, consumer, journal = _committer()
    committer.count_returned(100, lambda: POSITIONS)
    committer.count_returned(500, lambda: POSITIONS)
    assert len(consumer.sent) == 1
    consumer.sent[0][1](None, NotCoordinatorError())
    committer.count_returned(1, lambda: POSITIONS)
    assert len(consumer.sent) == 2
    (answer,) = [one for one in journal if isinstance(one, CommitAnswer)]
    assert (answer.commit, answer.status, answer.error) == (3_000_000_000, "unknown", "NOT_COORDINATOR")
    assert journal.index(answer) == 2, "journalled before the next commit"


def test_an_answer_without_an_error_is_acked() -> None:
    committer, consumer, journal = _committer()
    committer.count_returned(100, lambda: POSITIONS)
    consumer.sent[0][1](None, None)
    committer.apply()
    assert [(one.status, one.error) for one in journal if isinstance(one, CommitAnswer)] == [("acked", None)]


@pytest.mark.parametrize(
    ("metadata", "number"), [("42", 42), ("42\0", 42), ("", None), ("x", None), ("9" * 19, None), ("-1", None)]
)
def test_only_metadata_of_this_run_is_a_number(metadata: str, number: int | None) -> None:
    assert number_of(metadata) == number


def test_a_consumer_that_journals_its_commits_makes_no_others() -> None:
    assert consumer_settings(_config())["enable_auto_commit"] is False
    assert consumer_settings(_config(None))["enable_auto_commit"] is True


class _Connection:
    def connect(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_the_offsets_of_every_partition_are_kept_also_of_those_without(monkeypatch: pytest.MonkeyPatch) -> None:
    told: deque[dict[Partition, CommittedOffset] | None] = deque(
        [None, {Partition("t", 1): CommittedOffset(offset=20, metadata="7")}]
    )
    stopping = threading.Event()

    def answer(_connection: object, group: str) -> dict[Partition, CommittedOffset] | None:
        assert group == "g"
        if len(told) == 1:
            stopping.set()
        return told.popleft()

    monkeypatch.setattr(sampler, "committed_offsets", answer)
    monkeypatch.setattr(sampler, "connection_to", lambda *_args, **_limits: _Connection())
    config = SamplerConfig(
        endpoints=Endpoints(status="", stop=""),
        journal="",
        described="",
        brokers={2: "b:1"},
        topics={"__consumer_offsets": 1, "t": 2},
        groups={"g": ("t",)},
        interval_ms=1,
    )
    answers: deque[ServedOffset] = deque()
    BrokerOffsetReader(config, 2, answers, stopping).run()
    assert [(one.topic, one.partition, one.commit, one.offset, one.broker) for one in answers] == [
        (1, 0, None, None, 2),
        (1, 1, 7, 20, 2),
    ]
