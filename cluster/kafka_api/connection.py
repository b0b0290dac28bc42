"""A plain connection to one broker, for questions that only it may answer.

kafka-python's client looks for a live node, retries and backs off. A sampler must ask *this* broker now and give up
soon. The requests and responses are kafka-python's protocol classes, in fixed non-flexible versions that every KRaft
release supports (3.3 to 4.x).
"""

from __future__ import annotations

import base64
import socket
import struct
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import msgspec
from kafka.errors import for_code
from kafka.protocol.admin import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
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
_CREATE_TOPICS_VERSION = 5
_DESCRIBE_CONFIGS_VERSION = 3
_PARTITIONS_A_PAGE = 2000
FETCH_BYTES = 1 << 20

UNKNOWN_TOPIC, INVALID_CONFIG = 3, 40
AUTHORIZATION_ERRORS = frozenset({29, 31})
"""TOPIC_AUTHORIZATION_FAILED and CLUSTER_AUTHORIZATION_FAILED."""
TOPIC, BROKER = 2, 4
"""Kafka's codes of the kinds of resources that have settings."""

_RESPONSE_BYTES_MAX = 16 << 20


class Refused(Exception):
    """The node answered with an error code, whose protocol name is the text."""

    def __init__(self, code: int, message: str | None = None) -> None:
        self.is_missing_right = code in AUTHORIZATION_ERRORS
        super().__init__(f"{error_name(code)}: {message}" if message else error_name(code))


def error_name(code: int) -> str:
    """Return the protocol name of an error code."""
    # for_code has no protocol name for code 0.
    return "NONE" if code == NONE else str(for_code(code).message)


def check(code: int, message: str | None = None) -> None:
    """Raise `Refused` for the code of an error."""
    if code != NONE:
        raise Refused(code, message)


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


class BrokerConnection(AbstractContextManager["BrokerConnection"]):
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
        self, partitions: Sequence[tuple[str, int]], timestamp: int, *, committed: bool = False, replica: int = -1
    ) -> list[OffsetAnswer]:
        """Send ListOffsets v5 with `EARLIEST` or `LATEST`. Raises `WireError`.

        LATEST is the HW; if `committed` (the isolation level read_committed), the last stable offset. `replica` says
        who asks; -1: a consumer.
        """
        topics: dict[str, list[Any]] = {}
        for topic, partition in partitions:
            item = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
                partition_index=partition, current_leader_epoch=-1, timestamp=timestamp
            )
            topics.setdefault(topic, []).append(item)
        request = ListOffsetsRequest(
            replica_id=replica,
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

    def ask_metadata(
        self, topics: Sequence[str] | None, version: int = _METADATA_VERSION, *, with_rights: bool = False
    ) -> Any:
        """Return the answer to Metadata, which creates no topics; None: all topics that the user may describe.

        Raises `WireError`.
        """
        topic = MetadataRequest.MetadataRequestTopic
        request = MetadataRequest(
            topics=None if topics is None else [topic(name=name) for name in topics],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=with_rights,
        )
        return self.ask(request, MetadataResponse, version)

    def metadata(self, topics: Sequence[str]) -> ClusterState:
        """Send Metadata v8. Raises `WireError`.

        Partitions in error are left out.
        """
        response = self.ask_metadata(topics)
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
        (found,) = self.ask_metadata([topic], _TOPIC_IDS_VERSION).topics
        if found.error_code == UNKNOWN_TOPIC:
            return None
        return base64.urlsafe_b64encode(found.topic_id.bytes).decode().rstrip("=")

    def api_keys(self) -> frozenset[int]:
        """Return the API keys that the broker supports. Raises `WireError`."""
        response = self.ask(ApiVersionsRequest(), ApiVersionsResponse, _API_VERSIONS_VERSION)
        return frozenset(item.api_key for item in response.api_keys)

    def describe(self, topics: Sequence[str]) -> list[DescribedPartition]:
        """Send DescribeTopicPartitions v0, once for each page of the answer.

        Topics in error are left out. A broker that does not support it (`api_keys`) closes the connection. Raises
        `WireError`, also where a broker names a page twice, which would never end.
        """
        kind = DescribeTopicPartitionsRequest.TopicRequest
        described: list[DescribedPartition] = []
        cursor, seen = None, set()
        while True:
            request = DescribeTopicPartitionsRequest(
                topics=[kind(name=name) for name in sorted(topics)],
                response_partition_limit=_PARTITIONS_A_PAGE,
                cursor=cursor,
            )
            response = self.ask(request, DescribeTopicPartitionsResponse, _DESCRIBE_VERSION)
            described += [
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
            following = response.next_cursor
            if following is None:
                return described
            place = (following.topic_name, following.partition_index)
            if place in seen:
                raise WireError(f"the broker names the page at {place[0]}-{place[1]} a second time")
            seen.add(place)
            cursor = DescribeTopicPartitionsRequest.Cursor(topic_name=place[0], partition_index=place[1])

    def create_topic(
        self,
        name: str,
        assignment: Sequence[Sequence[int]],
        config: Mapping[str, str],
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        only_check: bool = False,
    ) -> Any:
        """Send CreateTopics v5 for one topic, and return its answer: an error code, and all settings (KIP-525).

        `assignment` lists the replicas of each partition; Kafka requires -1 for both counts where there is one.
        Without one Kafka chooses the replicas. Raises `WireError`.
        """
        kind = CreateTopicsRequest.CreatableTopic
        topic = kind(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            assignments=[
                kind.CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
                for index, replicas in enumerate(assignment)
            ],
            configs=[kind.CreatableTopicConfig(name=key, value=value) for key, value in config.items()],
        )
        timeout_ms = int(self._request_timeout_s * 1000)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms, validate_only=only_check)
        (answer,) = self.ask(request, CreateTopicsResponse, _CREATE_TOPICS_VERSION).topics
        return answer

    def describe_configs(self, kind: int, names: Sequence[str], keys: Sequence[str] | None = None) -> list[Any]:
        """Send DescribeConfigs v3, and return the answer of each resource: an error code, and its settings.

        `keys`: only these settings. Raises `WireError`.
        """
        resource = DescribeConfigsRequest.DescribeConfigsResource
        wanted = None if keys is None else list(keys)
        request = DescribeConfigsRequest(
            resources=[resource(resource_type=kind, resource_name=name, configuration_keys=wanted) for name in names],
            include_synonyms=False,
            include_documentation=False,
        )
        return list(self.ask(request, DescribeConfigsResponse, _DESCRIBE_CONFIGS_VERSION).results)

    def fetch_one(self, topic: FetchRequest.FetchTopic, replica: int, version: int, *, max_wait_ms: int = 0) -> Any:
        """Send Fetch for the one partition of `topic`, and return its answer. Raises `WireError`, `Refused`.

        `replica` says who asks: the answer depends on it.
        """
        request = FetchRequest(
            replica_id=replica,
            max_wait_ms=max_wait_ms,
            min_bytes=int(max_wait_ms > 0),
            max_bytes=FETCH_BYTES,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[topic],
            forgotten_topics_data=[],
            rack_id="",
        )
        response = self.ask(request, FetchResponse, version)
        check(response.error_code)
        return response.responses[0].partitions[0]

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
