"""What one replica says of its log, by two requests that every release answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import evidence_builders as build
import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from made_cluster import served_cluster

from cluster.kafka_api.connection import BrokerConnection, Refused
from cluster.kafka_api.replica_log import ask_replica_log, last_epoch_in
from ebbtide.logs.segments import TopicPartition

LIST_OFFSETS, FETCH = 2, 1
NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR = 6, 56


class Replica:
    """A broker whose replica ends at `end` with a batch of `epoch`; the partition's leader epoch is 7."""

    def __init__(self) -> None:
        self.end, self.epoch, self.error = 145, 3, 0
        self.asked: list[tuple[int, int, int]] = []
        self.port = 0

    def answer(self, api: int, request: bytes) -> tuple[Any, int]:
        if api == LIST_OFFSETS:
            asked = ListOffsetsRequest.decode(request, version=5, header=True)
            self.asked.append((api, asked.replica_id, asked.topics[0].partitions[0].timestamp))
            topic = ListOffsetsResponse.ListOffsetsTopicResponse
            one = topic.ListOffsetsPartitionResponse(
                partition_index=0, error_code=self.error, timestamp=-1, offset=self.end, leader_epoch=7
            )
            return ListOffsetsResponse(topics=[topic(name="t", partitions=[one])]), 5
        asked = FetchRequest.decode(request, version=11, header=True)
        self.asked.append((api, asked.replica_id, asked.topics[0].partitions[0].fetch_offset))
        fetched = FetchResponse.FetchableTopicResponse
        data = fetched.PartitionData(
            high_watermark=100,
            last_stable_offset=100,
            log_start_offset=0,
            aborted_transactions=None,
            preferred_read_replica=-1,
            records=build.plain_batch(self.end - 2, b"one", b"two", epoch=self.epoch),
        )
        return FetchResponse(responses=[fetched(topic="t", partitions=[data])]), 11


@contextmanager
def connected(replica: Replica) -> Iterator[BrokerConnection]:
    with (
        served_cluster(replica) as address,
        BrokerConnection(address, connect_timeout_s=2.0, request_timeout_s=2.0) as connection,
    ):
        yield connection


def test_a_replica_says_its_end_its_last_epoch_and_the_partitions_epoch() -> None:
    replica = Replica()
    with connected(replica) as connection:
        log = ask_replica_log(connection, 3, TopicPartition("t", 0))
    assert (log.broker, log.log_end_offset, log.last_epoch, log.current_leader_epoch) == (3, 145, 3, 7)
    assert replica.asked == [(LIST_OFFSETS, -2, -1), (FETCH, -3, 144)]
    assert log.asked_ns <= log.at_ns


def test_an_empty_log_has_no_last_epoch_and_nothing_is_fetched_of_it() -> None:
    replica = Replica()
    replica.end = 0
    with connected(replica) as connection:
        assert ask_replica_log(connection, 3, TopicPartition("t", 0)).last_epoch == -1
    assert len(replica.asked) == 1


def test_an_error_of_the_broker_is_told_by_its_name() -> None:
    replica = Replica()
    replica.error = KAFKA_STORAGE_ERROR
    with connected(replica) as connection, pytest.raises(Refused, match="KAFKA_STORAGE_ERROR"):
        ask_replica_log(connection, 3, TopicPartition("t", 0))


def test_the_last_whole_batch_counts() -> None:
    batches = build.plain_batch(0, b"a", epoch=1) + build.plain_batch(1, b"b", epoch=4)
    assert last_epoch_in(batches) == 4
    assert last_epoch_in(batches[:-1]) == 1
    assert last_epoch_in(b"") == -1
