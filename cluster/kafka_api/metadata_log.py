"""Reads the metadata log of a KRaft quorum from a controller, as an observer without an id.

Kafka's own metadata shell reads it in the same way: Fetch of `__cluster_metadata` with replica id -1
and the leader epoch of the quorum. A wrong epoch is refused, and the answer then names the leader.
What is below the log start is in a snapshot, which FetchSnapshot reads. Both need the right
ClusterAction on the cluster. Only the active controller answers.

Who votes in a dynamic quorum is changed by two requests of their own (KIP-853).
"""

from __future__ import annotations

import base64
import uuid
from typing import Any

import msgspec
from kafka.protocol.admin import DescribeQuorumRequest, DescribeQuorumResponse
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import FetchRequest

import cluster.kafka_api.schemas
from cluster.kafka_api.connection import FETCH_BYTES, BrokerConnection, check

_METADATA_TOPIC = "__cluster_metadata"
_TOPIC_ID = uuid.UUID(int=1)
_OBSERVER = -1
_FETCH_VERSION = 13
_NOT_LEADER, _FENCED_EPOCH, _UNKNOWN_EPOCH = 6, 74, 75
_REFUSED_WITH_LEADER = frozenset({_NOT_LEADER, _FENCED_EPOCH, _UNKNOWN_EPOCH})


class FetchSnapshotRequest(ApiMessage, load_json=cluster.kafka_api.schemas):  # type: ignore[call-arg, misc]
    """FetchSnapshot request, API key 59."""


class FetchSnapshotResponse(ApiMessage, load_json=cluster.kafka_api.schemas):  # type: ignore[call-arg, misc]
    """FetchSnapshot response, API key 59."""


class QuorumLeader(msgspec.Struct, frozen=True, kw_only=True):
    """The active controller and its epoch; -1 for an id that is not known."""

    leader: int
    epoch: int


class SnapshotId(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of everything below `end_offset`."""

    end_offset: int
    epoch: int


class MetadataAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of a controller.

    - `moved`: the controller does not lead under the asked epoch; the leader that it knows.
    - `snapshot`: the asked offset is no longer in the log, but in this snapshot.
    - `diverges`: the log does not hold the last batch that the asker has.
    - `batches` are whole batches, perhaps with the start of another one.
    """

    high_watermark: int = -1
    batches: bytes = b""
    moved: QuorumLeader | None = None
    snapshot: SnapshotId | None = None
    diverges: bool = False


class SnapshotPart(msgspec.Struct, frozen=True, kw_only=True):
    """Some bytes of a snapshot of `size` bytes; `moved` as in `MetadataAnswer`."""

    size: int = 0
    data: bytes = b""
    moved: QuorumLeader | None = None


def quorum_voters(connection: BrokerConnection) -> tuple[int, ...]:
    """Ask a broker or a controller for the ids of the quorum's voters. Raises `WireError`, `Refused`."""
    topic = DescribeQuorumRequest.TopicData
    request = DescribeQuorumRequest(
        topics=[topic(topic_name=_METADATA_TOPIC, partitions=[topic.PartitionData(partition_index=0)])]
    )
    answer = connection.ask(request, DescribeQuorumResponse, 0)
    check(answer.error_code)
    found = answer.topics[0].partitions[0]
    check(found.error_code)
    return tuple(sorted(one.replica_id for one in found.current_voters))


def fetch_metadata(
    connection: BrokerConnection, *, offset: int, last_epoch: int, leader_epoch: int, max_wait_ms: int
) -> MetadataAnswer:
    """Fetch from `offset` on; `last_epoch` is that of the last batch that the asker has.

    Raises `WireError`, and `Refused` for any other error.
    """
    topic = FetchRequest.FetchTopic
    one = topic.FetchPartition(
        partition=0,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=-1,
        partition_max_bytes=FETCH_BYTES,
    )
    metadata = topic(topic_id=_TOPIC_ID, partitions=[one])
    answer = connection.fetch_one(metadata, _OBSERVER, _FETCH_VERSION, max_wait_ms=max_wait_ms)
    if answer.error_code in _REFUSED_WITH_LEADER:
        return MetadataAnswer(moved=_leader_of(answer))
    check(answer.error_code)
    snapshot = answer.snapshot_id
    return MetadataAnswer(
        high_watermark=answer.high_watermark,
        batches=bytes(answer.records or b""),
        snapshot=SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch)
        if snapshot is not None and snapshot.end_offset >= 0
        else None,
        diverges=answer.diverging_epoch is not None and answer.diverging_epoch.end_offset >= 0,
    )


def fetch_snapshot(
    connection: BrokerConnection, snapshot: SnapshotId, *, position: int, leader_epoch: int
) -> SnapshotPart:
    """Fetch bytes of a snapshot from `position` on. Raises `WireError`, `Refused`."""
    topic = FetchSnapshotRequest.TopicSnapshot
    part = topic.PartitionSnapshot
    wanted = part.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch)
    one = part(partition=0, current_leader_epoch=leader_epoch, snapshot_id=wanted, position=position)
    request = FetchSnapshotRequest(
        cluster_id=None,
        replica_id=_OBSERVER,
        max_bytes=FETCH_BYTES,
        topics=[topic(name=_METADATA_TOPIC, partitions=[one])],
    )
    response = connection.ask(request, FetchSnapshotResponse, 0)
    check(response.error_code)
    answer = response.topics[0].partitions[0]
    if answer.error_code in _REFUSED_WITH_LEADER:
        return SnapshotPart(moved=_leader_of(answer))
    check(answer.error_code)
    return SnapshotPart(size=answer.size, data=bytes(answer.unaligned_records or b""))


def _leader_of(answer: Any) -> QuorumLeader:
    known = answer.current_leader
    return (
        QuorumLeader(leader=-1, epoch=-1)
        if known is None
        else QuorumLeader(leader=known.leader_id, epoch=known.leader_epoch)
    )


LISTENER = "CONTROLLER"


class AddRaftVoterRequest(ApiMessage, load_json=cluster.kafka_api.schemas):  # type: ignore[call-arg, misc]
    """AddRaftVoter request, API key 80."""


class AddRaftVoterResponse(ApiMessage, load_json=cluster.kafka_api.schemas):  # type: ignore[call-arg, misc]
    """AddRaftVoter response, API key 80."""


class RemoveRaftVoterRequest(ApiMessage, load_json=cluster.kafka_api.schemas):  # type: ignore[call-arg, misc]
    """RemoveRaftVoter request, API key 81."""


class RemoveRaftVoterResponse(ApiMessage, load_json=cluster.kafka_api.schemas):  # type: ignore[call-arg, misc]
    """RemoveRaftVoter response, API key 81."""


class AddVoter(msgspec.Struct, frozen=True, kw_only=True, tag="add-voter"):
    """Make a controller a voter; `directory` is the directory id of its disk, as Kafka prints it."""

    voter: int
    directory: str
    host: str
    port: int


class RemoveVoter(msgspec.Struct, frozen=True, kw_only=True, tag="remove-voter"):
    """Make a voter with this id and directory id an observer."""

    voter: int
    directory: str


def ask_voters(connection: BrokerConnection, request: AddVoter | RemoveVoter, timeout_ms: int) -> Any:
    """Send the request to one broker, which forwards it; returns the response. Raises `WireError` without one."""
    # Kafka prints a UUID as URL-safe base64 without padding.
    directory = uuid.UUID(bytes=base64.urlsafe_b64decode(request.directory + "=="))
    match request:
        case AddVoter(voter=voter, host=host, port=port):
            listener = AddRaftVoterRequest.Listener(name=LISTENER, host=host, port=port)
            wish = AddRaftVoterRequest(
                cluster_id=None,
                timeout_ms=timeout_ms,
                voter_id=voter,
                voter_directory_id=directory,
                listeners=[listener],
            )
            return connection.ask(wish, AddRaftVoterResponse, 0)
        case RemoveVoter(voter=voter):
            wish = RemoveRaftVoterRequest(cluster_id=None, voter_id=voter, voter_directory_id=directory)
            return connection.ask(wish, RemoveRaftVoterResponse, 0)
