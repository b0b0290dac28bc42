"""Where a tailing consumer goes on after a truncation, and that each move is a session of its own."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from client_configs import consumer_config
from kafka import ConsumerRebalanceListener, TopicPartition
from kafka.coordinator.base import BaseCoordinator
from kafka.errors import KafkaTimeoutError, LogTruncationError, NoOffsetForPartitionError, OffsetOutOfRangeError
from kafka.structs import OffsetAndMetadata

from ebbtide.record.clients import ClientEvent
from ebbtide.scenario.model import OffsetReset
from workloads.config import Endpoints
from workloads.consumer import Pace, Tail
from workloads.reading import RejoiningConsumer
from workloads.rebalances import Membership

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


def _tail(policy: OffsetReset = "none", tell: Callable[[ClientEvent], None] = lambda _: None) -> tuple[Tail, Consumer]:
    consumer = Consumer()
    config = consumer_config(auto_offset_reset=policy)
    tail = Tail(consumer, config, tell)
    tail.seek_to_start()
    for lane in tail.lanes.values():
        lane.previous = 40
    consumer.sought.clear()
    return tail, consumer


def test_it_starts_at_every_log_start_in_its_first_session() -> None:
    tail, consumer = _tail()
    assert consumer.assigned == [FIRST, SECOND]
    assert {lane.session for lane in tail.lanes.values()} == {1}


NONE, EARLIEST, LATEST = (START, 30, START, END, START), (START, 30, START, START, START), (END, 30, END, END, END)
ERRORS: dict[str, Any] = {
    "no offset": NoOffsetForPartitionError([FIRST]),
    "divergence known": LogTruncationError({FIRST: OffsetAndMetadata(30, "", 2)}),
    "epoch unknown": LogTruncationError({FIRST: None}),
    "beyond the end": OffsetOutOfRangeError({FIRST: 99}),
    "before the start": OffsetOutOfRangeError({FIRST: 3}),
}
POLICIES: dict[OffsetReset, tuple[int, ...]] = {"none": NONE, "earliest": EARLIEST, "latest": LATEST}


@pytest.mark.parametrize(
    ("policy", "error", "goes_on_at"),
    [
        pytest.param(policy, error, at, id=f"{policy}, {name}")
        for policy, places in POLICIES.items()
        for (name, error), at in zip(ERRORS.items(), places, strict=True)
    ],
)
def test_a_reset_is_a_new_session_of_that_partition_only(policy: OffsetReset, error: Any, goes_on_at: int) -> None:
    told: list[ClientEvent] = []
    tail, consumer = _tail(policy, told.append)
    tail.move_after(error)
    assert consumer.sought == [(FIRST, goes_on_at)]
    assert (tail.lanes[FIRST].session, tail.lanes[FIRST].previous) == (2, -1)
    assert (tail.lanes[SECOND].session, tail.lanes[SECOND].previous) == (1, 40)
    assert [(one.topic, one.partition, one.to) for one in told] == [("t", 0, goes_on_at)]
    assert f"auto_offset_reset {policy}" in told[0].why


def test_a_reset_says_from_where_even_where_the_error_does_not() -> None:
    told: list[ClientEvent] = []
    tail, _ = _tail("none", told.append)
    tail.move_after(LogTruncationError({FIRST: None}))
    tail.move_after(OffsetOutOfRangeError({SECOND: 99}))
    assert [(one.event, one.offset) for one in told] == [("truncation", 41), ("out-of-range", 99)]


def test_latest_begins_at_the_end() -> None:
    consumer = Consumer()
    endpoints = Endpoints(status="", stop="")
    config = consumer_config(endpoints=endpoints, topics={"t": 1}, auto_offset_reset="latest")
    Tail(consumer, config, lambda _: None).seek_to_start()
    assert consumer.sought == [(FIRST, END)]


class Member(Consumer):
    """A consumer that can be in a group; what is asked of it, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.listener: Any = None

    def continue_rebalance(self) -> None:
        self.asked.append("rejoin")

    def subscribe(self, topics: list[str], listener: Any) -> None:
        self.asked.append("subscribe")
        self.listener = listener

    def unsubscribe(self) -> None:
        self.asked.append("unsubscribe")

    def commit(self, timeout_ms: int) -> None:
        self.asked.append("commit")
        if self.silent:
            raise KafkaTimeoutError("no coordinator")


def _member(leave_every: int | None = None) -> tuple[Membership, Tail, Member, list[ClientEvent]]:
    member, told = Member(), list[ClientEvent]()
    endpoints = Endpoints(status="", stop="")
    config = consumer_config(endpoints=endpoints, group="g", leave_every=leave_every)
    tail = Tail(member, config, told.append)
    return Membership(member, config, tail.begin_session, told.append), tail, member, told


def test_an_assignment_begins_a_session_of_what_was_assigned_once_it_is_applied() -> None:
    membership, tail, member, told = _member()
    assert member.asked == ["subscribe"]
    assert member.assigned == []
    member.listener.on_partitions_assigned({FIRST})
    assert tail.lanes[FIRST].session == 0
    membership.apply()
    assert (tail.lanes[FIRST].session, tail.lanes[SECOND].session) == (1, 0)
    member.listener.on_partitions_revoked({FIRST})
    member.listener.on_partitions_assigned({SECOND, FIRST})
    membership.apply()
    assert (tail.lanes[FIRST].session, tail.lanes[SECOND].session) == (2, 2)
    assert [(one.event, one.partitions) for one in told] == [
        ("assigned", ("t-0",)),
        ("revoked", ("t-0",)),
        ("assigned", ("t-0", "t-1")),
    ]


def test_a_member_asks_to_join_again_when_a_poll_ended_between_revoked_and_assigned() -> None:
    membership, _, member, _ = _member()
    member.listener.on_partitions_revoked(set())
    member.listener.on_partitions_assigned({FIRST})
    membership.apply()
    assert member.asked == ["subscribe"], "the poll saw the whole rebalance"
    member.listener.on_partitions_revoked({FIRST})
    membership.apply()
    assert member.asked == ["subscribe", "rejoin"]
    membership.apply()
    member.listener.on_partitions_assigned({FIRST})
    membership.apply()
    assert member.asked == ["subscribe", "rejoin"], "the client remembers it until it has joined"


@pytest.mark.parametrize("silent", [False, True], ids=["committed", "no coordinator"])
def test_a_member_leaves_and_joins_again_after_so_many_records(silent: bool) -> None:
    membership, _, member, _ = _member(leave_every=100)
    member.silent = silent
    membership.count_returned(99)
    assert member.asked == ["subscribe"]
    membership.count_returned(1)
    assert member.asked == ["subscribe", "commit", "unsubscribe", "subscribe"]
    membership.count_returned(99)
    assert len(member.asked) == 4


def test_the_listener_is_one_that_kafka_python_accepts() -> None:
    _, _, member, _ = _member()
    assert isinstance(member.listener, ConsumerRebalanceListener)


def test_a_slow_consumer_asks_for_no_more_than_its_rate_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("workloads.consumer.time.monotonic", lambda: now)
    pace = Pace(10)
    assert pace.allowance() == 0
    now += 0.5
    assert pace.allowance() == 5
    pace.count_returned(5)
    assert pace.allowance() == 0
    now += 60
    assert pace.allowance() == 10, "what a pause left out is not made up for"
    assert Pace(None).allowance() is None


def test_sessions_are_counted_over_all_partitions() -> None:
    tail, _ = _tail()
    tail.move_after(LogTruncationError({FIRST: OffsetAndMetadata(30, "", 2)}))
    tail.move_after(LogTruncationError({SECOND: OffsetAndMetadata(30, "", 2)}))
    assert (tail.lanes[FIRST].session, tail.lanes[SECOND].session) == (2, 3)


def test_without_an_answer_nothing_moves() -> None:
    tail, consumer = _tail()
    consumer.silent = True
    with pytest.raises(KafkaTimeoutError):
        tail.move_after(OffsetOutOfRangeError({FIRST: 99}))
    assert consumer.sought == []
    assert tail.lanes[FIRST].session == 1


def test_kafka_python_joins_again_when_asked_to_continue_a_rebalance() -> None:
    consumer, asked = object.__new__(RejoiningConsumer), list[str]()
    consumer._coordinator = SimpleNamespace(request_rejoin=lambda: asked.append("rejoin"))
    consumer.continue_rebalance()
    assert asked == ["rejoin"]
    assert callable(BaseCoordinator.request_rejoin)
