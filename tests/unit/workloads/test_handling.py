"""A consumer that takes time to handle records: it journals what it has handled, and commits before or after that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from ebbtide.journal.file import JournalReader
from ebbtide.journal.frames import POLLED, unpack_polled
from ebbtide.scenario.model import CommitWhen
from workloads import consumer
from workloads.config import ConsumerConfig, Endpoints
from workloads.status import ClientState, StatusFile

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
        config = ConsumerConfig(
            endpoints=Endpoints(status="", stop=""),
            journal=str(journal),
            run_id="r",
            bootstrap=(),
            id=1,
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
