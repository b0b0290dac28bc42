"""Asks a broker to move a replica to another of its log directories, and where it is (KIP-113, KIP-858).

Only the broker itself answers: a move is none of the controller's business. Kafka copies the replica into the new
directory as a *future replica*, and lets the copy take its place once it has caught up.
"""

from __future__ import annotations

import contextlib

import msgspec
from kafka.protocol.admin import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

from cluster.kafka_api.connection import BrokerConnection
from ebbtide.waiting import WaitExpired, wait_until

_VERSION = 1
"""The newest that 3.7 knows of both requests, and the oldest that 4.x knows."""
_SEEN_S = 5.0
"""How long a broker may take to begin a move that it accepted."""


class MoveReplica(msgspec.Struct, frozen=True, kw_only=True, tag="move-replica"):
    """Move the replica of a partition on `broker` to its log directory `path`."""

    topic: str
    partition: int
    broker: int
    path: str


class ReplicaPaths(msgspec.Struct, frozen=True, kw_only=True):
    """The log directory of a replica, and that of its future replica; None: the broker has none."""

    current: str | None = None
    future: str | None = None


class ReplicaMove(msgspec.Struct, frozen=True, kw_only=True):
    """Where a replica was before the request, and where it was seen afterwards."""

    before: ReplicaPaths = ReplicaPaths()
    after: ReplicaPaths = ReplicaPaths()


def move_replica(connection: BrokerConnection, request: MoveReplica, timeout_s: float) -> tuple[int, ReplicaMove]:
    """Ask for the move, and wait until it has begun; returns the error code of the answer. Raises `WireError`."""
    before = ask_paths(connection, request.topic, request.partition)
    kind = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    topic = kind.AlterReplicaLogDirTopic(name=request.topic, partitions=[request.partition])
    wish = AlterReplicaLogDirsRequest(dirs=[kind(path=request.path, topics=[topic])])
    answer = connection.ask(wish, AlterReplicaLogDirsResponse, _VERSION)
    codes = [one.error_code for topic in answer.results for one in topic.partitions]
    seen = [before]

    def has_begun() -> bool:
        seen.append(ask_paths(connection, request.topic, request.partition))
        return request.path in (seen[-1].current, seen[-1].future)

    if not any(codes):
        with contextlib.suppress(WaitExpired):
            wait_until(has_begun, awaited="the move to begin", timeout_s=min(timeout_s / 2, _SEEN_S), poll_s=0.05)
    return next((code for code in codes if code), 0), ReplicaMove(before=before, after=seen[-1])


def ask_paths(connection: BrokerConnection, topic: str, partition: int) -> ReplicaPaths:
    """Return where the broker has the replica. Raises `WireError`."""
    wish = DescribeLogDirsRequest(
        topics=[DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=[partition])]
    )
    answer = connection.ask(wish, DescribeLogDirsResponse, _VERSION)
    found = {
        one.is_future_key: result.log_dir
        for result in answer.results
        for described in result.topics
        for one in described.partitions
        if described.name == topic and one.partition_index == partition
    }
    return ReplicaPaths(current=found.get(False), future=found.get(True))
