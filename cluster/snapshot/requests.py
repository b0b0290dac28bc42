"""The requests that a snapshot needs, in versions that every KRaft release answers (3.3 to 4.x).

All of them only read. `Refused` says which right is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from kafka.errors import for_code
from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse

from cluster.kafka_api.connection import NONE, BrokerConnection, WireError

_API_VERSIONS_VERSION = 3
_METADATA_VERSION = 8
_DESCRIBE_CONFIGS_VERSION = 1
_TOPIC, _BROKER = 2, 4
_TOPIC_LEVEL = 1
"""The source of a config that the topic itself sets."""
_TOPICS_A_REQUEST = 500
_PARTITIONS_A_PAGE = 2000

_UNKNOWN_TOPIC = 3
_AUTHORIZATION_ERRORS = (29, 31)
"""TOPIC_AUTHORIZATION_FAILED and CLUSTER_AUTHORIZATION_FAILED."""


class Refused(Exception):
    """The broker answered with an error code, whose protocol name is the text."""

    def __init__(self, code: int, message: str | None = None) -> None:
        self.is_missing_right = code in _AUTHORIZATION_ERRORS
        name = str(for_code(code).message)
        super().__init__(f"{name}: {message}" if message else name)


class ApiFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says of itself before anything else: API keys, and finalised and supported feature levels."""

    keys: frozenset[int]
    finalized: dict[str, int]
    supported: dict[str, tuple[int, int]]


def ask_api_versions(connection: BrokerConnection) -> ApiFacts:
    """Ask what the node supports. Raises `WireError`, `Refused`."""
    asked = ApiVersionsRequest(client_software_name="ebbtide", client_software_version="1")
    answer = connection.ask(asked, ApiVersionsResponse, _API_VERSIONS_VERSION)
    _raise_error(answer.error_code)
    return ApiFacts(
        keys=frozenset(one.api_key for one in answer.api_keys),
        finalized={one.name: one.max_version_level for one in answer.finalized_features or ()},
        supported={one.name: (one.min_version, one.max_version) for one in answer.supported_features or ()},
    )


def ask_metadata(connection: BrokerConnection) -> Any:
    """Ask for the brokers and for all topics that this user may describe. Raises `WireError`."""
    asked = MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    return connection.ask(asked, MetadataResponse, _METADATA_VERSION)


def ask_topic_configs(
    connection: BrokerConnection, topics: Sequence[str], names: Sequence[str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each topic with those of its configs that the topic itself sets. Raises `WireError`, `Refused`.

    Topics that were deleted meanwhile are left out.
    """
    for at in range(0, len(topics), _TOPICS_A_REQUEST):
        for result in _describe_configs(connection, _TOPIC, topics[at : at + _TOPICS_A_REQUEST], names):
            if result.error_code == _UNKNOWN_TOPIC:
                continue
            own = {one.name: one.value for one in result.configs if one.config_source == _TOPIC_LEVEL}
            yield result.resource_name, {name: value for name, value in own.items() if value is not None}


def ask_broker_configs(connection: BrokerConnection, broker: int, names: Sequence[str]) -> dict[str, str]:
    """Return the broker's own effective configs. Raises `WireError`, `Refused`."""
    (result,) = _describe_configs(connection, _BROKER, [str(broker)], names)
    return {one.name: one.value for one in result.configs if one.value is not None and one.name in names}


def _describe_configs(
    connection: BrokerConnection, kind: int, resources: Sequence[str], names: Sequence[str]
) -> list[Any]:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    asked = DescribeConfigsRequest(
        resources=[
            resource(resource_type=kind, resource_name=name, configuration_keys=list(names)) for name in resources
        ],
        include_synonyms=False,
        include_documentation=False,
    )
    answer = connection.ask(asked, DescribeConfigsResponse, _DESCRIBE_CONFIGS_VERSION)
    for result in answer.results:
        if result.error_code != _UNKNOWN_TOPIC or kind != _TOPIC:
            _raise_error(result.error_code, result.error_message)
    return list(answer.results)


def ask_reassignments(connection: BrokerConnection, timeout_ms: int) -> dict[tuple[str, int], Any]:
    """Return the reassignments under way by partition. Raises `WireError`, `Refused`."""
    asked = ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=None)
    answer = connection.ask(asked, ListPartitionReassignmentsResponse, 0)
    _raise_error(answer.error_code, answer.error_message)
    return {(topic.name, one.partition_index): one for topic in answer.topics for one in topic.partitions}


def ask_elrs(connection: BrokerConnection, topics: Sequence[str]) -> Iterator[tuple[tuple[str, int], Any]]:
    """Yield every partition of the topics with its ELR, page by page.

    Topics in error are left out: they were deleted meanwhile. Raises `WireError`, also where a broker names a page
    twice, which would never end.
    """
    kind = DescribeTopicPartitionsRequest.TopicRequest
    cursor, seen = None, set()
    while True:
        asked = DescribeTopicPartitionsRequest(
            topics=[kind(name=name) for name in sorted(topics)],
            response_partition_limit=_PARTITIONS_A_PAGE,
            cursor=cursor,
        )
        answer = connection.ask(asked, DescribeTopicPartitionsResponse, 0)
        for topic in answer.topics:
            if topic.error_code == NONE:
                yield from (((topic.name, one.partition_index), one) for one in topic.partitions)
        following = answer.next_cursor
        if following is None:
            return
        place = (following.topic_name, following.partition_index)
        if place in seen:
            raise WireError(f"the broker names the page at {place[0]}-{place[1]} a second time")
        seen.add(place)
        cursor = DescribeTopicPartitionsRequest.Cursor(
            topic_name=following.topic_name, partition_index=following.partition_index
        )


def _raise_error(code: int, message: str | None = None) -> None:
    if code != NONE:
        raise Refused(code, message)
