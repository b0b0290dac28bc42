"""The sampler against brokers that answer, refuse, talk nonsense or say nothing at all."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from client_configs import sampler_config
from client_frames import frame
from kafka.protocol.admin import DescribeTopicPartitionsResponse
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsResponse

from cluster.kafka_api.connection import DESCRIBE_TOPIC_PARTITIONS, LATEST, BrokerConnection, WireError
from ebbtide.journal.commits import PartitionAnswer, pack_described, unpack_described
from ebbtide.journal.file import JournalHeader, JournalReader, JournalWriter
from ebbtide.waiting import wait_until
from workloads.sampler import BrokerDescriber, BrokerSampler

NOT_LEADER = 6
Reply = Callable[[int], bytes]


class Broker:
    """A listening socket whose every request is answered by `reply(correlation id)`; b"" says nothing."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests: list[bytes] = []
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Close every socket; a shut down socket wakes the thread that waits on it."""
        for item in [self._listener, *self._open]:
            with contextlib.suppress(OSError):
                item.shutdown(socket.SHUT_RDWR)
            item.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            while head := connection.recv(4):
                (length,) = struct.unpack(">i", head)
                request = connection.recv(length)
                self.requests.append(request)
                connection.sendall(self._reply(struct.unpack(">i", request[4:8])[0]))
        except OSError:
            return


def _answer(error: int, offset: int, epoch: int) -> Reply:
    kind = ListOffsetsResponse.ListOffsetsTopicResponse
    partition = kind.ListOffsetsPartitionResponse(
        partition_index=0, error_code=error, timestamp=-1, offset=offset, leader_epoch=epoch
    )
    topics = [kind(name="t", partitions=[partition])]
    return lambda correlation: frame(ListOffsetsResponse(topics=topics), 5, correlation)


@pytest.fixture
def broker() -> Iterator[Callable[[Reply], Broker]]:
    """Starts brokers, and closes them."""
    started: list[Broker] = []

    def start(reply: Reply) -> Broker:
        started.append(Broker(reply))
        return started[-1]

    yield start
    for item in started:
        item.close()


def _sample(
    brokers: dict[int, str], enough: Callable[[list[tuple[int, ...]]], bool], *, interval_ms: int = 5
) -> list[tuple[int, ...]]:
    config = sampler_config(brokers=brokers, interval_ms=interval_ms, request_timeout_ms=300)
    marks: deque[tuple[int, ...]] = deque()
    stopping = threading.Event()
    threads = [BrokerSampler(config, broker, marks, stopping) for broker in brokers]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: enough(list(marks)), awaited="enough samples", timeout_s=30)
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
    return list(marks)


def test_only_a_leaders_answer_is_a_row_with_its_epoch_and_times(broker: Callable[[Reply], Broker]) -> None:
    leader, follower = broker(_answer(0, 42, 7)), broker(_answer(NOT_LEADER, -1, -1))
    before = time.time_ns()
    marks = _sample(
        {1: leader.address, 2: follower.address}, lambda marks: len(marks) > 3 and len(follower.requests) > 3
    )
    for topic, partition, id_, epoch, offset, asked, at in marks:
        assert (topic, partition, id_, epoch, offset) == (0, 0, 1, 7, 42)
        assert before <= asked <= at <= time.time_ns()


def test_a_sampler_that_is_stopped_asks_once_more(broker: Callable[[Reply], Broker]) -> None:
    assert len(_sample({1: broker(_answer(0, 42, 7)).address}, lambda marks: True, interval_ms=3_600_000)) == 1


def test_a_silent_broker_holds_up_no_other(broker: Callable[[Reply], Broker]) -> None:
    silent, leader = broker(lambda _: b""), broker(_answer(0, 1, 0))
    _sample({1: silent.address, 2: leader.address}, lambda marks: len(marks) >= 10 and len(silent.requests) >= 1)
    # In turn, each would have been asked as often as the other.
    assert len(silent.requests) < len(leader.requests) / 2


def test_a_broker_that_comes_back_is_sampled_again(broker: Callable[[Reply], Broker]) -> None:
    answers = iter([b"", b"\0\0\0\2xx"])
    good = _answer(0, 3, 1)
    returning = broker(lambda correlation: next(answers, None) or good(correlation))
    marks = _sample({1: returning.address}, lambda marks: len(marks) >= 2)
    assert marks[0][4] == 3


def test_the_question_is_for_the_latest_offset_read_uncommitted(broker: Callable[[Reply], Broker]) -> None:
    leader = broker(_answer(0, 1, 0))
    with BrokerConnection(leader.address, connect_timeout_s=1, request_timeout_s=1) as connection:
        connection.list_offsets([("t", 0)], LATEST)
    (data,) = leader.requests
    request = ListOffsetsRequest.decode(data, version=5, header=True)
    (topic,) = request.topics
    (partition,) = topic.partitions
    assert (request.replica_id, request.isolation_level) == (-1, 0)
    assert (topic.name, partition.partition_index) == ("t", 0)
    assert (partition.timestamp, partition.current_leader_epoch) == (-1, -1)


@pytest.mark.parametrize("answer", [b"\x7f\xff\xff\xff", b"\0\0\0\1x", b"\0\0\0\x08\0\0\0\x63\0\0\0\0"])
def test_nonsense_closes_the_connection(broker: Callable[[Reply], Broker], answer: bytes) -> None:
    odd = broker(lambda _: answer)
    connection = BrokerConnection(odd.address, connect_timeout_s=1, request_timeout_s=1)
    with pytest.raises(WireError):
        connection.list_offsets([("t", 0)], LATEST)
    assert connection._socket is None


def test_an_answer_to_another_request_is_not_taken(broker: Callable[[Reply], Broker]) -> None:
    answer = _answer(0, 3, 1)
    late = broker(lambda correlation: answer(correlation - 1))
    with (
        BrokerConnection(late.address, connect_timeout_s=1, request_timeout_s=1) as connection,
        pytest.raises(WireError, match="another request"),
    ):
        connection.list_offsets([("t", 0)], LATEST)


def _describe_reply(elr: list[int] | None, *, speaks: bool = True) -> Reply:
    """Answers ApiVersions first, then one partition with this ELR."""
    kind = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
    partition = kind.DescribeTopicPartitionsResponsePartition(
        error_code=5,
        partition_index=0,
        leader_id=-1,
        leader_epoch=4,
        replica_nodes=[1, 2, 3],
        isr_nodes=[],
        eligible_leader_replicas=elr,
        last_known_elr=[3],
        offline_replicas=[1],
    )

    def reply(correlation: int) -> bytes:
        if correlation == 1:
            keys = [DESCRIBE_TOPIC_PARTITIONS] if speaks else [3]
            versions = [ApiVersionsResponse.ApiVersion(api_key=key, min_version=0, max_version=0) for key in keys]
            return frame(ApiVersionsResponse(api_keys=versions), 0, correlation)
        topics = [kind(name="t", topic_id=uuid.uuid4(), partitions=[partition])]
        topics += [kind(error_code=3, name="u", topic_id=uuid.uuid4())]
        return frame(DescribeTopicPartitionsResponse(topics=topics), 0, correlation)

    return reply


def _describer(address: str) -> tuple[BrokerDescriber, deque[PartitionAnswer], threading.Event]:
    config = sampler_config(brokers={2: address}, describe_interval_ms=5, request_timeout_ms=5_000)
    answers: deque[PartitionAnswer] = deque()
    stopping = threading.Event()
    return BrokerDescriber(config, 2, answers, stopping), answers, stopping


@pytest.mark.parametrize("elr", [[1, 2], [], None])
def test_what_a_broker_describes_is_kept_as_it_said_it(
    broker: Callable[[Reply], Broker], tmp_path: Path, elr: list[int] | None
) -> None:
    thread, answers, stopping = _describer(broker(_describe_reply(elr)).address)
    thread.start()
    wait_until(lambda: len(answers) >= 2, awaited="two answers", timeout_s=60)
    stopping.set()
    thread.join()
    journal = JournalWriter(tmp_path / "describer.journal", JournalHeader(table="described", topics=("t",)))
    journal.write([pack_described(list(answers))])
    ((kind, payload),) = JournalReader(tmp_path / "describer.journal").frames()
    one = unpack_described(kind, payload)[0]
    assert one.elr == (None if elr is None else tuple(elr))
    assert (one.broker, one.leader, one.leader_epoch, one.isr, one.last_known_elr) == (2, -1, 4, (), (3,))
    assert one.asked_ns <= one.at_ns


def test_a_broker_that_cannot_describe_is_not_asked_to(broker: Callable[[Reply], Broker]) -> None:
    old = broker(_describe_reply([], speaks=False))
    thread, answers, _ = _describer(old.address)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert (len(old.requests), len(answers)) == (1, 0)
