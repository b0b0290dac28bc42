"""Asks one replica, leader or not, where its log ends and which leader epoch wrote its last batch.

This is what KIP-966's GetReplicaLogInfo would answer; no release has that API (KAFKA-18681). An
operator's tool learns the same from two requests that every release answers:

- ListOffsets with the replica id of a debugging consumer (-2). Any replica answers with its log end
  offset. The epoch in the answer is the partition's current leader epoch as the broker knows it
  (`CurrentLeaderEpoch`), not that of the last record.
- Fetch of the last record with the replica id -3, which a broker uses for the copy of a log that it
  moves between directories. Kafka then reads up to the log end instead of the HW, from any replica.
  The batch's header has the leader epoch (`LastWrittenLeaderEpoch`).

OffsetsForLeaderEpoch is no help: only a leader answers it.
"""

from __future__ import annotations

import msgspec
from kafka.protocol.consumer import FetchRequest

from cluster.kafka_api.connection import FETCH_BYTES, LATEST, BrokerConnection, check
from ebbtide import run_clock
from ebbtide.logs.batches import whole_batches
from ebbtide.logs.segments import TopicPartition

_DEBUGGING_CONSUMER = -2
_LOG_COPY = -3
_FETCH_VERSION = 11
"""The newest version that names topics instead of their ids."""
NO_EPOCH = -1


class ReplicaLogInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One replica's answer; `asked_ns` is when it was asked, `at_ns` when the answer was complete.

    `last_epoch` is -1 for a log without records.
    """

    broker: int
    log_end_offset: int
    last_epoch: int
    current_leader_epoch: int
    asked_ns: int
    at_ns: int


class ReplicaAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """The newest answer of each replica, and the error of each replica whose last try failed.

    `asking`: the replicas are being asked by now.
    """

    asking: bool = False

    logs: dict[int, ReplicaLogInfo] = {}
    errors: dict[int, str] = {}


def ask_replica_log(connection: BrokerConnection, broker: int, at: TopicPartition) -> ReplicaLogInfo:
    """Ask `broker`, to which `connection` leads. Raises `WireError`, `Refused`."""
    asked_ns = run_clock.now_ns()
    (end,) = connection.list_offsets([(at.topic, at.partition)], LATEST, replica=_DEBUGGING_CONSUMER)
    check(end.error)
    last_epoch = NO_EPOCH if end.offset == 0 else last_epoch_in(read_replica(connection, at, end.offset - 1).batches)
    return ReplicaLogInfo(
        broker=broker,
        log_end_offset=end.offset,
        last_epoch=last_epoch,
        current_leader_epoch=NO_EPOCH if end.leader_epoch is None else end.leader_epoch,
        asked_ns=asked_ns,
        at_ns=run_clock.now_ns(),
    )


class LogPart(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one replica's log: whole batches, perhaps with the start of another one.

    `high_watermark` and `log_start` are as this replica has them.
    """

    batches: bytes
    high_watermark: int
    log_start: int


def read_replica(connection: BrokerConnection, at: TopicPartition, offset: int, replica: int = _LOG_COPY) -> LogPart:
    """Read a replica's log from `offset` on, or what `replica` gets of it. Raises `WireError`, `Refused`."""
    topic = FetchRequest.FetchTopic
    one = topic.FetchPartition(
        partition=at.partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        log_start_offset=-1,
        partition_max_bytes=FETCH_BYTES,
    )
    answer = connection.fetch_one(topic(topic=at.topic, partitions=[one]), replica, _FETCH_VERSION)
    check(answer.error_code)
    return LogPart(
        batches=bytes(answer.records or b""),
        high_watermark=answer.high_watermark,
        log_start=answer.log_start_offset,
    )


def last_epoch_in(data: bytes) -> int:
    """Return the leader epoch of the last whole batch; -1 without one."""
    batches = whole_batches(data)
    return batches[-1].leader_epoch if batches else NO_EPOCH
