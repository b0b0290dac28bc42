"""Where a tailing consumer goes on after a truncation, and that each move is a session of its own."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError, LogTruncationError, OffsetOutOfRangeError
from kafka.structs import OffsetAndMetadata

from workloads.config import ConsumerConfig, Endpoints
from workloads.consumer import Tail

START, END = 10, 50
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class Consumer:
    """Stands for a KafkaConsumer whose partitions go from START to END."""

    def __init__(self) -> None:
        self.assigned: list[TopicPartition] = []
        self.sought: list[tuple[TopicPartition, int]] = []
        self.silent = False

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = partitions

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.sought.append((partition, offset))

    def beginning_offsets(self, partitions: list[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        return self._offsets(partitions, START)

    def end_offsets(self, partitions: list[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        return self._offsets(partitions, END)

    def _offsets(self, partitions: list[TopicPartition], offset: int) -> dict[TopicPartition, int]:
        if self.silent:
            raise KafkaTimeoutError("no answer")
        return dict.fromkeys(partitions, offset)


def _tail() -> tuple[Tail, Consumer]:
    consumer = Consumer()
    config = ConsumerConfig(
        endpoints=Endpoints(status="", stop=""),
        journal="",
        run_id="run",
        bootstrap=(),
        id=1,
        topics={"t": 2},
    )
    tail = Tail(consumer, config, lambda _: None)
    tail.to_first()
    for lane in tail.lanes.values():
        lane.previous = 40
    consumer.sought.clear()
    return tail, consumer


def test_it_starts_at_every_log_start_in_its_first_session() -> None:
    tail, consumer = _tail()
    assert consumer.assigned == [FIRST, SECOND]
    assert {lane.session for lane in tail.lanes.values()} == {1}


@pytest.mark.parametrize(
    ("error", "goes_on_at"),
    [
        (LogTruncationError({FIRST: OffsetAndMetadata(30, "", 2)}), 30),
        (LogTruncationError({FIRST: None}), START),
        (OffsetOutOfRangeError({FIRST: 99}), END),
        (OffsetOutOfRangeError({FIRST: 3}), START),
    ],
    ids=["divergence known", "epoch unknown", "beyond the end", "before the start"],
)
def test_a_truncation_is_a_new_session_of_that_partition_only(error: Any, goes_on_at: int) -> None:
    tail, consumer = _tail()
    tail.after(error)
    assert consumer.sought == [(FIRST, goes_on_at)]
    assert (tail.lanes[FIRST].session, tail.lanes[FIRST].previous) == (2, -1)
    assert (tail.lanes[SECOND].session, tail.lanes[SECOND].previous) == (1, 40)


def test_sessions_are_counted_over_all_partitions() -> None:
    tail, _ = _tail()
    tail.after(LogTruncationError({FIRST: OffsetAndMetadata(30, "", 2)}))
    tail.after(LogTruncationError({SECOND: OffsetAndMetadata(30, "", 2)}))
    assert (tail.lanes[FIRST].session, tail.lanes[SECOND].session) == (2, 3)


def test_without_an_answer_nothing_moves() -> None:
    tail, consumer = _tail()
    consumer.silent = True
    with pytest.raises(KafkaTimeoutError):
        tail.after(OffsetOutOfRangeError({FIRST: 99}))
    assert consumer.sought == []
    assert tail.lanes[FIRST].session == 1
