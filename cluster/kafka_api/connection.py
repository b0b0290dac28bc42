"""A plain connection to one broker, for questions that only it may answer.

kafka-python's client looks for a live node, retries and backs off. A sampler must ask *this* broker now and give up
soon. The requests and responses are kafka-python's protocol classes, in fixed non-flexible versions that every KRaft
release supports (3.3 to 4.x).
"""

from __future__ import annotations

import base64
import socket
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import msgspec
from kafka.protocol.admin import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse

from cluster.kafka_api.resolving import connect_to

EARLIEST = -2
LATEST = -1
NONE = 0
"""Kafka's error code for success."""

DESCRIBE_TOPIC_PARTITIONS = 75
"""The API key; brokers from 3.8 on support it (KAFKA-15585)."""

_API_VERSIONS_VERSION = 0
_DESCRIBE_VERSION = 0
_LIST_OFFSETS_VERSION = 5
_METADATA_VERSION = 8
_TOPIC_IDS_VERSION = 12
_UNKNOWN_TOPIC = 3
_CREATE_TOPICS_VERSION = 4
_RESPONSE_BYTES_MAX = 16 << 20


class WireError(Exception):
    """The broker did not answer in time or could not be asked.

    The connection is closed.
    """


class CachedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition in a broker's metadata cache; leader -1 means none."""

    leader: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


class ClusterState(msgspec.Struct, frozen=True, kw_only=True):
    """Registered brokers (id -> `host:port`), and the partitions of the asked topics."""

    brokers: dict[int, str]
    partitions: dict[tuple[str, int], CachedPartition]


class OffsetAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One partition's answer to ListOffsets.

    `error` is Kafka's error code; `leader_epoch` is None where absent.
    """

    topic: str
    partition: int
    error: int
    offset: int
    leader_epoch: int | None


class DescribedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition as a broker describes it (KIP-966).

    Leader -1: the broker knows no live leader. An ELR of None: the broker does not say.
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None
    last_known_elr: tuple[int, ...] | None


class TopicAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One topic's answer to CreateTopics."""

    topic: str
    error: int
    message: str


class BrokerConnection:
    """A socket to `host:port`.

    Each request connects if needed; a failed request closes the connection.
    """

    def __init__(self, address: str, *, connect_timeout_s: float, request_timeout_s: float) -> None:
        self.address = address
        host, _, port = address.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._connect_timeout_s = connect_timeout_s
        self._request_timeout_s = request_timeout_s
        self._socket: socket.socket | None = None
        self._correlation = 0

    def __enter__(self) -> BrokerConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def connect(self) -> None:
        """Connect unless connected. Raises `WireError`."""
        if self._socket is not None:
            return
        try:
            self._socket = connect_to(self._host, self._port, self._connect_timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.settimeout(self._request_timeout_s)
        except OSError as error:
            self.close()
            raise WireError(f"{self.address}: {error}") from None

    def close(self) -> None:
        """Close the socket if it is open."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def list_offsets(
        self, partitions: list[tuple[str, int]], timestamp: int, *, committed: bool = False
    ) -> list[OffsetAnswer]:
        """Send ListOffsets v5 with `EARLIEST` or `LATEST`. Raises `WireError`.

        LATEST is the HW; if `committed` (the isolation level read_committed), the last stable offset.
        """
        topics: dict[str, list[Any]] = {}
        for topic, partition in partitions:
            item = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
                partition_index=partition, current_leader_epoch=-1, timestamp=timestamp
            )
            topics.setdefault(topic, []).append(item)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(committed),
            topics=[ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=items) for name, items in topics.items()],
        )
        response = self.ask(request, ListOffsetsResponse, _LIST_OFFSETS_VERSION)
        return [
            OffsetAnswer(
                topic=topic.name,
                partition=item.partition_index,
                error=item.error_code,
                offset=item.offset,
                leader_epoch=item.leader_epoch if item.leader_epoch >= 0 else None,
            )
            for topic in response.topics
            for item in topic.partitions
        ]

    def metadata(self, topics: list[str]) -> ClusterState:
        """Send Metadata v8, which creates no topics. Raises `WireError`.

        Partitions in error are left out.
        """
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        response = self.ask(request, MetadataResponse, _METADATA_VERSION)
        return ClusterState(
            brokers={broker.node_id: f"{broker.host}:{broker.port}" for broker in response.brokers},
            partitions={
                (topic.name, item.partition_index): CachedPartition(
                    leader=item.leader_id, isr=tuple(item.isr_nodes), replicas=tuple(item.replica_nodes)
                )
                for topic in response.topics
                if topic.error_code == NONE
                for item in topic.partitions
            },
        )

    def topic_id(self, topic: str) -> str | None:
        """Return the topic's id as the broker knows it, as Kafka prints ids; None: it knows no such topic.

        Sends Metadata v12. Raises `WireError`.
        """
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic)],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        (found,) = self.ask(request, MetadataResponse, _TOPIC_IDS_VERSION).topics
        if found.error_code == _UNKNOWN_TOPIC:
            return None
        return base64.urlsafe_b64encode(found.topic_id.bytes).decode().rstrip("=")

    def api_keys(self) -> frozenset[int]:
        """Return the API keys that the broker supports. Raises `WireError`."""
        response = self.ask(ApiVersionsRequest(), ApiVersionsResponse, _API_VERSIONS_VERSION)
        return frozenset(item.api_key for item in response.api_keys)

    def describe(self, topics: Sequence[str]) -> list[DescribedPartition]:
        """Send DescribeTopicPartitions v0. Raises `WireError`.

        Topics in error are left out. A broker that does not support it (`api_keys`) closes the connection.
        """
        kind = DescribeTopicPartitionsRequest.TopicRequest
        request = DescribeTopicPartitionsRequest(
            topics=[kind(name=name) for name in sorted(topics)], response_partition_limit=2000, cursor=None
        )
        response = self.ask(request, DescribeTopicPartitionsResponse, _DESCRIBE_VERSION)
        return [
            DescribedPartition(
                topic=topic.name,
                partition=item.partition_index,
                leader=item.leader_id,
                leader_epoch=item.leader_epoch,
                isr=tuple(item.isr_nodes),
                elr=None if item.eligible_leader_replicas is None else tuple(item.eligible_leader_replicas),
                last_known_elr=None if item.last_known_elr is None else tuple(item.last_known_elr),
            )
            for topic in response.topics
            if topic.error_code == NONE
            for item in topic.partitions
        ]

    def create_topic(self, name: str, assignment: Sequence[Sequence[int]], config: dict[str, str]) -> TopicAnswer:
        """Send CreateTopics v4 for one topic. Raises `WireError`.

        `assignment` lists the replicas of each partition.
        """
        kind = CreateTopicsRequest.CreatableTopic
        topic = kind(
            name=name,
            # Kafka requires -1 for both where an assignment is given.
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                kind.CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
                for index, replicas in enumerate(assignment)
            ],
            configs=[kind.CreatableTopicConfig(name=key, value=value) for key, value in config.items()],
        )
        timeout_ms = int(self._request_timeout_s * 1000)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms, validate_only=False)
        (answer,) = self.ask(request, CreateTopicsResponse, _CREATE_TOPICS_VERSION).topics
        return TopicAnswer(topic=answer.name, error=answer.error_code, message=answer.error_message or "")

    def ask(self, request: Any, response: Any, version: int) -> Any:
        """Send one of kafka-python's requests and return its decoded answer.

        Raises `WireError`.
        """
        self.connect()
        assert self._socket is not None
        self._correlation += 1
        request.API_VERSION = version
        request.with_header(correlation_id=self._correlation, client_id="ebbtide")
        try:
            self._socket.sendall(request.encode(header=True, framed=True))
            (length,) = struct.unpack(">i", self._read(4))
            if not 4 <= length <= _RESPONSE_BYTES_MAX:
                raise OSError(f"an answer of {length} bytes")
            data = self._read(length)
        except OSError as error:
            # A late answer must never be read as the answer to the next request, so that the connection is closed.
            self.close()
            raise WireError(f"{self.address}: {error}") from None
        try:
            answer = response.decode(data, version=version, header=True)
        except (ValueError, IndexError, struct.error) as error:
            self.close()
            raise WireError(f"{self.address}: the answer cannot be decoded: {error}") from None
        if answer.header.correlation_id != self._correlation:
            self.close()
            raise WireError(f"{self.address}: the answer belongs to another request")
        return answer

    def _read(self, count: int) -> bytes:
        assert self._socket is not None
        data = bytearray()
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            if not part:
                raise OSError("the broker closed the connection")
            data += part
        return bytes(data)
