"""A made cluster that answers what `ebbtide advise` asks, and `ebbtide watch` at first, on a port of this host."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeQuorumResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

BROKER_KEYS = (0, 1, 2, 3, 18, 32, 46, 55, 60, 75)
API_VERSIONS, METADATA, CONFIGS, REASSIGNMENTS, ELRS, HANDSHAKE, AUTHENTICATE = 18, 3, 32, 46, 75, 17, 36
DESCRIBE_QUORUM = 55
TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED = 29, 31


class MadeCluster:
    """One broker, and what it says; tests change the fields before it is asked."""

    def __init__(self) -> None:
        self.keys: tuple[int, ...] = BROKER_KEYS
        self.metadata_versions = (7, 30)
        self.features = {"metadata.version": 30, "eligible.leader.replicas.version": 1}
        self.port = 0
        self.rack: str | None = "a"
        self.topics: dict[str, list[dict[str, Any]]] = {
            "orders": [{"leader": 1, "replicas": [1, 2, 3], "isr": [1, 2, 3], "elr": []}]
        }
        self.configs: dict[str, dict[str, str]] = {"orders": {"min.insync.replicas": "2"}}
        self.broker_configs = {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"}
        self.errors: dict[int, int] = {}
        """Error codes by API key; those of topic and of broker configs are apart by their sign."""
        self.deleted: frozenset[str] = frozenset()
        """Topics that are deleted once Metadata was answered."""
        self.voters: tuple[int, ...] | None = None
        """Who votes in the quorum; None: the user may not know."""
        self.silent: frozenset[int] = frozenset()
        self.password = "tide"
        self.asked: list[int] = []
        self.page = 2000
        self.api_versions_max = 3
        """The newest version of ApiVersions; a newer question is answered by error 35 in version 0."""

    def answer(self, api: int, request: bytes) -> tuple[Any, int] | None:
        """Return the response to a request, and its version; None for no answer."""
        self.asked.append(api)
        if api in self.silent:
            return None
        match api:
            case 18:
                version = int.from_bytes(request[2:4], "big")
                is_known = version <= self.api_versions_max
                return self._api_versions(0 if is_known else 35), version if is_known else 0
            case 3:
                return self._metadata(), 8
            case 32:
                return self._configs(DescribeConfigsRequest.decode(request, version=3, header=True)), 3
            case 46:
                ListPartitionReassignmentsRequest.decode(request, version=0, header=True)
                return self._reassignments(), 0
            case 55:
                return self._quorum(), 0
            case 75:
                return self._elrs(DescribeTopicPartitionsRequest.decode(request, version=0, header=True)), 0
            case 17:
                asked = SaslHandshakeRequest.decode(request, version=1, header=True)
                wrong = 0 if asked.mechanism == "PLAIN" else 33
                return SaslHandshakeResponse(error_code=wrong, mechanisms=["PLAIN"]), 1
            case 36:
                given = SaslAuthenticateRequest.decode(request, version=0, header=True).auth_bytes
                wrong = 0 if bytes(given).endswith(self.password.encode()) else 58
                message = "Authentication failed" if wrong else None
                return SaslAuthenticateResponse(error_code=wrong, error_message=message, auth_bytes=b""), 0
        raise AssertionError(f"API key {api} is asked by nobody")

    def _quorum(self) -> Any:
        if self.voters is None:
            return DescribeQuorumResponse(error_code=CLUSTER_AUTHORIZATION_FAILED, topics=[])
        topic = DescribeQuorumResponse.TopicData
        voters = [topic.PartitionData.ReplicaState(replica_id=one, log_end_offset=1) for one in self.voters]
        partition = topic.PartitionData(
            partition_index=0,
            leader_id=1,
            leader_epoch=1,
            high_watermark=1,
            current_voters=voters,
        )
        named = topic(topic_name="__cluster_metadata", partitions=[partition])
        return DescribeQuorumResponse(topics=[named])

    def _api_versions(self, error: int) -> Any:
        key, supported, finalized = (
            ApiVersionsResponse.ApiVersion,
            ApiVersionsResponse.SupportedFeatureKey,
            ApiVersionsResponse.FinalizedFeatureKey,
        )
        low, high = self.metadata_versions
        return ApiVersionsResponse(
            error_code=error,
            api_keys=[key(api_key=one, min_version=0, max_version=9) for one in self.keys],
            supported_features=[supported(name="metadata.version", min_version=low, max_version=high)],
            finalized_features_epoch=1,
            finalized_features=[
                finalized(name=name, max_version_level=level, min_version_level=level)
                for name, level in self.features.items()
            ],
        )

    def _metadata(self) -> Any:
        topic = MetadataResponse.MetadataResponseTopic
        broker = MetadataResponse.MetadataResponseBroker
        return MetadataResponse(
            brokers=[broker(node_id=1, host="127.0.0.1", port=self.port, rack=self.rack)],
            cluster_id="made",
            controller_id=1,
            topics=[
                topic(
                    name=name,
                    partitions=[
                        topic.MetadataResponsePartition(
                            partition_index=index,
                            leader_id=one["leader"],
                            leader_epoch=0,
                            replica_nodes=one["replicas"],
                            isr_nodes=one["isr"],
                        )
                        for index, one in enumerate(partitions)
                    ],
                )
                for name, partitions in self.topics.items()
            ],
        )

    def _configs(self, asked: Any) -> Any:
        result = DescribeConfigsResponse.DescribeConfigsResult
        results = []
        for one in asked.resources:
            is_topic = one.resource_type == 2
            values = self.configs.get(one.resource_name, {}) if is_topic else self.broker_configs
            source = 1 if is_topic else 4
            results.append(
                result(
                    error_code=3 if one.resource_name in self.deleted else self.errors.get(32 if is_topic else -32, 0),
                    error_message=None,
                    resource_type=one.resource_type,
                    resource_name=one.resource_name,
                    configs=[
                        result.DescribeConfigsResourceResult(
                            name=name,
                            value=value,
                            config_source=source,
                            config_type=2,
                            documentation=None,
                        )
                        for name, value in values.items()
                    ],
                )
            )
        return DescribeConfigsResponse(results=results)

    def _reassignments(self) -> Any:
        topic = ListPartitionReassignmentsResponse.OngoingTopicReassignment
        return ListPartitionReassignmentsResponse(
            error_code=self.errors.get(46, 0),
            error_message=None,
            topics=[
                topic(
                    name=name,
                    partitions=[
                        topic.OngoingPartitionReassignment(
                            partition_index=index,
                            replicas=one["replicas"],
                            adding_replicas=one.get("adding", []),
                            removing_replicas=one.get("removing", []),
                        )
                        for index, one in enumerate(partitions)
                        if one.get("adding") or one.get("removing")
                    ],
                )
                for name, partitions in self.topics.items()
                if any(one.get("adding") or one.get("removing") for one in partitions)
            ],
        )

    def _elrs(self, asked: Any) -> Any:
        """Answer one page, as a broker does."""
        kind = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
        names = sorted(one.name for one in asked.topics)
        begin = (asked.cursor.topic_name, asked.cursor.partition_index) if asked.cursor else ("", 0)
        rows = [(name, index) for name in names for index in range(len(self.topics[name]))]
        rows = [row for row in rows if row >= begin]
        shown, rest = rows[: self.page], rows[self.page :]
        cursor = DescribeTopicPartitionsResponse.Cursor
        return DescribeTopicPartitionsResponse(
            topics=[
                kind(
                    name=name,
                    partitions=[
                        kind.DescribeTopicPartitionsResponsePartition(
                            partition_index=index,
                            leader_id=self.topics[name][index]["leader"],
                            leader_epoch=0,
                            replica_nodes=self.topics[name][index]["replicas"],
                            isr_nodes=self.topics[name][index]["isr"],
                            eligible_leader_replicas=self.topics[name][index].get("elr"),
                        )
                        for other, index in shown
                        if other == name
                    ],
                )
                for name in dict.fromkeys(name for name, _ in shown)
            ],
            next_cursor=cursor(topic_name=rest[0][0], partition_index=rest[0][1]) if rest else None,
        )


class Answering(Protocol):
    """What answers requests to a port: a response and its version; None for no answer, an OSError to hang up."""

    port: int

    def answer(self, api: int, request: bytes) -> tuple[Any, int] | None: ...


@contextmanager
def served_cluster(cluster: Answering, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve the cluster on this host; yields its address."""
    ended = threading.Event()
    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        cluster.port = server.getsockname()[1]
        server.settimeout(0.05)

        def accept() -> None:
            while not ended.is_set():
                with suppress(TimeoutError):
                    connection, _ = server.accept()
                    connection.settimeout(5.0)
                    thread = threading.Thread(target=_serve, args=(cluster, connection, tls, ended), daemon=True)
                    threads.append(thread)
                    thread.start()

        acceptor = threading.Thread(target=accept, daemon=True)
        acceptor.start()
        try:
            yield f"127.0.0.1:{cluster.port}"
        finally:
            ended.set()
            for thread in (acceptor, *threads):
                thread.join(2.0)


def _serve(cluster: Answering, plain: socket.socket, tls: ssl.SSLContext | None, ended: threading.Event) -> None:
    with suppress(OSError, ssl.SSLError), plain:
        connection = tls.wrap_socket(plain, server_side=True) if tls else plain
        with connection, connection.makefile("rb") as file:
            while head := file.read(4):
                request = file.read(struct.unpack(">i", head)[0])
                api, _, correlation = struct.unpack(">hhi", request[:8])
                answered = cluster.answer(api, request)
                if answered is None:
                    ended.wait(10.0)
                    return
                response, version = answered
                response.API_VERSION = version
                response.with_header(correlation_id=correlation)
                connection.sendall(response.encode(header=True, framed=True))
