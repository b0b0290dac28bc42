"""librdkafka's consumer behaves for `workloads.consumer` as kafka-python's does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, get_args

import confluent_kafka as rdkafka
import pytest
from client_configs import consumer_config
from confluent_kafka import KafkaError, KafkaException, Message
from kafka import TopicPartition
from kafka.errors import KafkaError as KafkaPythonError
from kafka.errors import LogTruncationError, NoOffsetForPartitionError, OffsetOutOfRangeError
from kafka.structs import OffsetAndMetadata

from ebbtide.journal.commits import LastCommitAnswer, outcome_of_commit
from ebbtide.scenario.kafka_settings import GroupProtocol
from workloads import librdkafka_consumer
from workloads.config import ConsumerConfig
from workloads.library_settings import librdkafka_consumer_settings
from workloads.librdkafka_consumer import LibrdkafkaError, LibrdkafkaReader
from workloads.rebalances import Listener

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
NO_OFFSET = "no previously committed offset available: Local: No offset stored"
OUT_OF_RANGE = (
    "fetch failed due to requested offset not available on the broker: Broker: Offset out of range (broker 1)"
)
TRUNCATED = (
    "Partition log truncation detected at offset 90 (leader epoch 3): broker end offset is 40 (offset leader epoch 2). "
    "Reset to INVALID.: Local: Partition log truncation detected"
)
UNKNOWN_EPOCH = (
    "No epoch found less or equal to offset 90 (leader epoch 3): broker end offset is -1 (offset leader epoch -1). "
    "Reset using configured policy.: Local: Partition log truncation detected"
)


def record(at: TopicPartition, offset: int) -> Message:
    return Message(topic=at.topic, partition=at.partition, offset=offset, value=b"x")


def problem(at: TopicPartition, text: str, offset: int = -1, code: int = KafkaError._AUTO_OFFSET_RESET) -> Message:
    return Message(topic=at.topic, partition=at.partition, offset=offset, error=KafkaError(code, text))


class Consumer:
    """Stands for librdkafka's consumer: `coming` are messages, or callbacks that run in the middle of a poll."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.coming: deque[Message | Callable[[], None]] = deque()
        self.assigned: dict[TopicPartition, int] = {}
        self.calls: list[str] = []
        self.refusal: KafkaException | None = None
        self.on_assign: Any = None
        self.on_revoke: Any = None

    def poll(self, _timeout: float) -> Message | None:
        while self.coming:
            one = self.coming.popleft()
            if isinstance(one, Message):
                return one
            one()
        return None

    def subscribe(self, _topics: list[str], *, on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self.on_assign, self.on_revoke = on_assign, on_revoke

    def rebalance(self, *partitions: TopicPartition, gained: bool) -> None:
        """Let the next poll call back."""
        found = [rdkafka.TopicPartition(*one) for one in partitions]
        self.coming.append(lambda: (self.on_assign if gained else self.on_revoke)(self, found))

    def assignment(self) -> list[rdkafka.TopicPartition]:
        return [rdkafka.TopicPartition(*one) for one in self.assigned]

    def assign(self, wanted: list[rdkafka.TopicPartition]) -> None:
        self._call("assign", wanted)

    def incremental_assign(self, wanted: list[rdkafka.TopicPartition]) -> None:
        self._call("incremental_assign", wanted)

    def incremental_unassign(self, wanted: list[rdkafka.TopicPartition]) -> None:
        self._call("incremental_unassign", wanted)

    def commit(self, *, offsets: list[rdkafka.TopicPartition], asynchronous: bool) -> None:
        self._call("commit", offsets)

    def get_watermark_offsets(self, at: rdkafka.TopicPartition, *, timeout: float, cached: bool) -> tuple[int, int]:
        self._call("ends", [at])
        return 5, 50

    def _call(self, name: str, wanted: list[rdkafka.TopicPartition]) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.calls.append(f"{name} {', '.join(f'{one.partition}@{one.offset}' for one in wanted)}")


def config_of(group: str | None = None, protocol: GroupProtocol = "classic", **more: Any) -> ConsumerConfig:
    return consumer_config(group=group, group_protocol=protocol, **more)


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[LibrdkafkaReader, Consumer]]:
    monkeypatch.setattr(librdkafka_consumer.rdkafka, "Consumer", Consumer)

    def made(group: str | None = None, protocol: GroupProtocol = "classic") -> tuple[LibrdkafkaReader, Consumer]:
        reader = LibrdkafkaReader(config_of(group, protocol), ["a:1"])
        consumer = reader._consumer
        assert isinstance(consumer, Consumer)
        return reader, consumer

    return made


Make = Callable[..., tuple[LibrdkafkaReader, Consumer]]


def offsets_of(returned: dict[TopicPartition, list[Any]]) -> dict[TopicPartition, list[int]]:
    return {at: [one.offset for one in records] for at, records in returned.items()}


def test_records_are_returned_by_partition(make: Make) -> None:
    reader, consumer = make()
    consumer.coming.extend([record(FIRST, 0), record(SECOND, 7), record(FIRST, 1)])
    assert offsets_of(reader.poll(timeout_ms=50, max_records=None)) == {FIRST: [0, 1], SECOND: [7]}


def test_a_poll_returns_no_more_records_than_asked(make: Make) -> None:
    reader, consumer = make()
    consumer.coming.extend(record(FIRST, number) for number in range(5))
    assert offsets_of(reader.poll(timeout_ms=50, max_records=3)) == {FIRST: [0, 1, 2]}
    assert offsets_of(reader.poll(timeout_ms=50, max_records=3)) == {FIRST: [3, 4]}


def test_a_rebalance_in_the_middle_of_a_poll_parts_the_records(make: Make) -> None:
    reader, consumer = make("g")
    listener = Listener()
    reader.subscribe(topics=["t"], listener=listener)
    consumer.coming.append(record(FIRST, 0))
    consumer.rebalance(FIRST, gained=False)
    consumer.rebalance(FIRST, SECOND, gained=True)
    consumer.coming.append(record(FIRST, 1))
    assert offsets_of(reader.poll(timeout_ms=50, max_records=None)) == {FIRST: [0]}
    assert not listener.events
    assert offsets_of(reader.poll(timeout_ms=50, max_records=None)) == {FIRST: [1]}
    assert [(event, partitions) for event, _, partitions in listener.events] == [
        ("revoked", (FIRST,)),
        ("assigned", (FIRST, SECOND)),
    ]


def test_a_partition_is_not_this_members_before_the_listener_is_told(make: Make) -> None:
    reader, consumer = make("g", "consumer")
    reader.subscribe(topics=["t"], listener=Listener())
    consumer.coming.append(record(FIRST, 0))
    consumer.rebalance(SECOND, gained=True)
    consumer.assigned = {FIRST: 0, SECOND: 0}
    assert offsets_of(reader.poll(timeout_ms=50, max_records=None)) == {FIRST: [0]}
    # A commit now would have the position at which this member lost the partition before.
    assert reader.assignment() == {FIRST}
    reader.poll(timeout_ms=50, max_records=None)
    assert reader.assignment() == {FIRST, SECOND}


def test_a_rebalance_without_records_is_told_at_once(make: Make) -> None:
    reader, consumer = make("g")
    listener = Listener()
    reader.subscribe(topics=["t"], listener=listener)
    consumer.rebalance(FIRST, gained=True)
    assert reader.poll(timeout_ms=50, max_records=None) == {}
    assert [event for event, _, _ in listener.events] == ["assigned"]


@pytest.mark.parametrize(
    ("text", "offset", "kind", "about"),
    [
        (NO_OFFSET, -1, NoOffsetForPartitionError, [FIRST]),
        (OUT_OF_RANGE, 90, OffsetOutOfRangeError, {FIRST: 90}),
        (OUT_OF_RANGE, -1, OffsetOutOfRangeError, {FIRST: 31}),
    ],
)
def test_a_position_that_is_not_in_the_log_is_kafka_pythons_error(
    make: Make, text: str, offset: int, kind: type[KafkaPythonError], about: object
) -> None:
    reader, consumer = make()
    consumer.coming.extend([record(FIRST, 30)] if kind is OffsetOutOfRangeError else [])
    consumer.coming.append(problem(FIRST, text, offset))
    if kind is OffsetOutOfRangeError:
        reader.poll(timeout_ms=50, max_records=None)
    with pytest.raises(kind) as caught:
        reader.poll(timeout_ms=50, max_records=None)
    assert caught.value.args[0] == about


@pytest.mark.parametrize(
    ("text", "to"), [(TRUNCATED, OffsetAndMetadata(40, "", -1)), (UNKNOWN_EPOCH, None)], ids=["known", "unknown"]
)
def test_a_truncated_log_names_the_point_of_divergence_where_it_is_known(make: Make, text: str, to: object) -> None:
    reader, consumer = make()
    consumer.coming.append(problem(FIRST, text))
    with pytest.raises(LogTruncationError) as caught:
        reader.poll(timeout_ms=50, max_records=None)
    assert caught.value.divergent_offsets == {FIRST: to}


def test_any_other_problem_says_its_name_and_the_records_before_it_are_returned(make: Make) -> None:
    reader, consumer = make()
    consumer.coming.extend([record(FIRST, 0), problem(FIRST, "", code=KafkaError.UNKNOWN_TOPIC_OR_PART)])
    assert offsets_of(reader.poll(timeout_ms=50, max_records=None)) == {FIRST: [0]}
    with pytest.raises(LibrdkafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        reader.poll(timeout_ms=50, max_records=None)


@pytest.mark.parametrize(
    ("group", "protocol", "calls"),
    [
        (None, "classic", ["incremental_assign 0@40"]),
        ("g", "consumer", ["incremental_assign 0@40"]),
        # The other partition goes on after the last record that was read.
        ("g", "classic", ["assign 0@40, 1@8"]),
    ],
)
def test_a_moved_position_is_assigned_as_the_protocol_allows(
    make: Make, group: str | None, protocol: GroupProtocol, calls: list[str]
) -> None:
    reader, consumer = make(group, protocol)
    consumer.coming.extend([record(FIRST, 0), record(SECOND, 7)])
    reader.poll(timeout_ms=50, max_records=None)
    reader.seek(FIRST, 40)
    assert consumer.calls == calls


def test_a_partition_that_is_read_is_taken_back_before_it_is_assigned_again(make: Make) -> None:
    reader, consumer = make()
    consumer.assigned = {FIRST: 0}
    reader.seek(FIRST, 40)
    assert [call.partition(" ")[0] for call in consumer.calls] == ["incremental_unassign", "incremental_assign"]


def test_a_record_from_before_a_move_is_not_returned_after_it(make: Make) -> None:
    reader, consumer = make("g")
    reader.subscribe(topics=["t"], listener=Listener())
    consumer.coming.append(record(SECOND, 7))
    consumer.rebalance(FIRST, gained=True)
    consumer.coming.append(record(FIRST, 90))
    reader.poll(timeout_ms=50, max_records=None)
    reader.seek(FIRST, 40)
    assert reader.poll(timeout_ms=50, max_records=None) == {}


def test_a_consumer_that_a_fatal_error_ended_is_opened_again_as_a_new_member(make: Make) -> None:
    reader, first = make("g", "consumer")
    listener, answers = Listener(), list[Any]()
    reader.subscribe(topics=["t"], listener=listener)
    first.rebalance(FIRST, gained=True)
    reader.poll(timeout_ms=50, max_records=None)
    reader.commit_async({FIRST: OffsetAndMetadata(9, "1", -1)}, lambda _, answer: answers.append(answer))
    first.coming.append(problem(FIRST, "group is gone", code=KafkaError._FATAL))
    with pytest.raises(LibrdkafkaError, match="_FATAL"):
        reader.poll(timeout_ms=50, max_records=None)
    reader.poll(timeout_ms=50, max_records=None)
    second: Any = reader._consumer
    assert second is not first
    second.rebalance(FIRST, gained=True)
    second.coming.append(record(FIRST, 5))
    assert offsets_of(reader.poll(timeout_ms=50, max_records=None)) == {FIRST: [5]}
    assert [event for event, _, _ in listener.events] == ["assigned", "revoked", "assigned"]
    assert [answer.name for answer in answers] == ["_FATAL"]


def test_an_error_that_is_not_fatal_leaves_the_consumer_as_it_is(make: Make) -> None:
    reader, consumer = make()
    consumer.coming.append(problem(FIRST, "", code=KafkaError.UNKNOWN_TOPIC_OR_PART))
    with pytest.raises(LibrdkafkaError):
        reader.poll(timeout_ms=50, max_records=None)
    reader.poll(timeout_ms=50, max_records=None)
    assert reader._consumer is consumer


def test_what_librdkafka_cannot_do_now_is_an_error_that_a_consumer_outlives(make: Make) -> None:
    reader, consumer = make()
    consumer.refusal = KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))
    with pytest.raises(LibrdkafkaError, match="no answer"):
        reader.seek(FIRST, 40)
    with pytest.raises(KafkaPythonError, match="no answer"):
        reader.end_offsets([FIRST], 100)


@pytest.mark.parametrize("error", [None, KafkaError(KafkaError.NOT_COORDINATOR)], ids=["acked", "refused"])
def test_the_answer_of_a_commit_is_told_to_the_one_who_made_it(make: Make, error: KafkaError | None) -> None:
    reader, consumer = make("g")
    answers: list[Any] = []
    reader.commit_async({FIRST: OffsetAndMetadata(9, "1000000003", -1)}, lambda _, answer: answers.append(answer))
    assert consumer.calls == ["commit 0@9"]
    consumer.settings["on_commit"](error, [rdkafka.TopicPartition("t", 0, 9, "1000000003")])
    rows = [outcome_of_commit(answer) for answer in answers]
    assert [(row.name, row.outcome) for row in rows] == [
        ("NONE", "acked") if error is None else ("NOT_COORDINATOR", "unknown")
    ]


def test_a_commit_that_librdkafka_does_not_take_is_answered_at_once(make: Make) -> None:
    reader, consumer = make("g")
    consumer.refusal = KafkaException(KafkaError(KafkaError._STATE))
    answers: list[Any] = []
    reader.commit_async({FIRST: OffsetAndMetadata(9, "1", -1)}, lambda _, answer: answers.append(answer))
    assert [answer.name for answer in answers] == ["_STATE"]


def test_a_refusal_that_kafka_python_would_be_sure_of_is_unknown_here() -> None:
    # An earlier attempt of the same commit may have been appended.
    assert outcome_of_commit(LastCommitAnswer("ILLEGAL_GENERATION")).outcome == "unknown"


@pytest.mark.parametrize("protocol", get_args(GroupProtocol))
@pytest.mark.parametrize("group", [None, "g"])
def test_librdkafka_takes_the_settings_of_every_consumer(group: str | None, protocol: GroupProtocol) -> None:
    settings = librdkafka_consumer_settings(config_of(group, protocol if group else "classic"))
    rdkafka.Consumer({"bootstrap.servers": "localhost:1", **settings})
    assert settings["auto.offset.reset"] == "error"


def test_a_consumer_that_journals_its_commits_makes_no_others() -> None:
    assert librdkafka_consumer_settings(config_of("g"))["enable.auto.commit"] is True
    assert librdkafka_consumer_settings(config_of("g", commit_every=5))["enable.auto.commit"] is False
