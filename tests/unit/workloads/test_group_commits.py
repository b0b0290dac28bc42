"""A consumer journals each commit before it is sent, knows its commits again, and commits before or after handling."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from client_configs import consumer_config, sampler_config
from kafka import TopicPartition
from kafka.errors import NotCoordinatorError
from kafka.structs import OffsetAndMetadata

from cluster.kafka_api.group_offsets import CommittedOffset
from ebbtide.journal.commits import Commit, CommitAnswer, Entry, ServedOffset
from ebbtide.journal.file import JournalReader
from ebbtide.journal.frames import POLLED, unpack_polled
from ebbtide.logs.segments import TopicPartition as Partition
from ebbtide.scenario.model import CommitWhen
from workloads import consumer, sampler
from workloads.commits import Committer, number_of
from workloads.config import ConsumerConfig
from workloads.process import ClientState, StatusFile
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
    return consumer_config(id=3, group="g", commit_every=commit_every)


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
        if len(told) == 2:  # it asks once more
            stopping.set()
        return told.popleft()

    monkeypatch.setattr(sampler, "committed_offsets", answer)
    monkeypatch.setattr(sampler, "connection_to", lambda *_args, **_limits: _Connection())
    config = sampler_config(
        brokers={2: "b:1"}, topics={"__consumer_offsets": 1, "t": 2}, groups={"g": ("t",)}, interval_ms=1
    )
    answers: deque[ServedOffset] = deque()
    BrokerOffsetReader(config, 2, answers, stopping).run()
    assert [(one.topic, one.partition, one.commit, one.offset, one.broker) for one in answers] == [
        (1, 0, None, None, 2),
        (1, 1, 7, 20, 2),
    ]


AT = TopicPartition("t", 0)


class Reader:
    """A member of a group that gets one poll of `count` records, and notes what is asked of it."""

    def __init__(self, count: int) -> None:
        self.records = [SimpleNamespace(offset=at, value=None, leader_epoch=0) for at in range(count)]
        self.committed: list[int] = []
        self.shut_down_at: dict[TopicPartition, int] | None = None
        self.listener: Any = None

    def subscribe(self, *, topics: list[str], listener: Any) -> None:
        self.listener = listener

    def assignment(self) -> set[TopicPartition]:
        return {AT}

    def poll(self, *, timeout_ms: int, max_records: int | None) -> dict[TopicPartition, list[Any]]:
        if self.listener.events or not self.records:
            return {}
        self.listener.on_partitions_assigned([AT])
        records, self.records = self.records, []
        return {AT: records}

    def commit_async(self, wanted: dict[TopicPartition, OffsetAndMetadata], callback: Callable[..., None]) -> None:
        self.committed.append(wanted[AT].offset)
        callback(wanted, None)

    def shut_down(self, handled: dict[TopicPartition, int], timeout_s: float) -> None:
        self.shut_down_at = dict(handled)


class StopAfter:
    """Is asked to stop once `handled` records were handled; `is_leaving`: by a step."""

    def __init__(self, handled: int, *, is_leaving: bool = False) -> None:
        self.handled = -handled
        self.is_leaving = is_leaving

    def __bool__(self) -> bool:
        return self.handled >= 0


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Reader, list[int]]]:
    monkeypatch.setattr(consumer, "wait_for_brokers", lambda *_: ["b:1"])
    journal = tmp_path / "consumer-1.journal"

    def run(when: CommitWhen, handled: int, *, is_leaving: bool = False) -> tuple[Reader, list[int]]:
        reader, stop = Reader(10), StopAfter(handled, is_leaving=is_leaving)

        def handle(_seconds: float) -> None:
            stop.handled += 1

        monkeypatch.setattr(consumer, "pause", handle)
        config = consumer_config(
            journal=str(journal),
            topics={"t": 1},
            group="g",
            commit_every=3,
            commits_journal=str(tmp_path / "commits-1.journal"),
            handle_ms=1.0,
            commit_when=when,
        )
        status = StatusFile.create(tmp_path / "status", 0)
        state = consumer.run(config, status, stop, lambda *_: reader)  # type: ignore[arg-type]
        assert state == ClientState.STOPPED
        frames = [unpack_polled(payload) for kind, payload in JournalReader(journal).frames() if kind == POLLED]
        return reader, [offset for one in frames for offset in one.offsets]

    return run


def test_only_what_was_handled_has_a_row_and_is_committed(read: Callable[..., tuple[Reader, list[int]]]) -> None:
    reader, rows = read("after-handling", 7)
    assert rows == [0, 1, 2, 3, 4, 5, 6]
    assert reader.committed == [3, 6]
    assert reader.shut_down_at is None


def test_a_commit_before_the_handling_covers_records_that_a_kill_leaves_without_a_row(
    read: Callable[..., tuple[Reader, list[int]]],
) -> None:
    reader, rows = read("before-handling", 7)
    assert reader.committed == [10]
    assert rows == [0, 1, 2, 3, 4, 5, 6]


def test_a_member_that_is_shut_down_commits_what_it_handled_and_leaves(
    read: Callable[..., tuple[Reader, list[int]]],
) -> None:
    reader, rows = read("after-handling", 7, is_leaving=True)
    assert rows[-1] == 6
    assert reader.committed == [3, 6, 7]
    assert reader.shut_down_at == {AT: 7}
