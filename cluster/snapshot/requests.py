"""The requests that a snapshot needs, in versions that every KRaft release answers (3.3 to 4.x).

All of them only read. `Refused` says which right is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from kafka.protocol.admin import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from cluster.kafka_api.connection import BROKER, TOPIC, UNKNOWN_TOPIC, BrokerConnection, check

_API_VERSIONS_VERSION = 3
_TOPIC_LEVEL = 1
"""The source of a config that the topic itself sets."""
_TOPICS_A_REQUEST = 500


class ApiFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says of itself before anything else: API keys, and finalised and supported feature levels."""

    keys: frozenset[int]
    finalized: dict[str, int]
    supported: dict[str, tuple[int, int]]


def ask_api_versions(connection: BrokerConnection) -> ApiFacts:
    """Ask what the node supports. Raises `WireError`, `Refused`."""
    asked = ApiVersionsRequest(client_software_name="ebbtide", client_software_version="1")
    answer = connection.ask(asked, ApiVersionsResponse, _API_VERSIONS_VERSION)
    check(answer.error_code)
    return ApiFacts(
        keys=frozenset(one.api_key for one in answer.api_keys),
        finalized={one.name: one.max_version_level for one in answer.finalized_features or ()},
        supported={one.name: (one.min_version, one.max_version) for one in answer.supported_features or ()},
    )


def ask_topic_configs(
    connection: BrokerConnection, topics: Sequence[str], names: Sequence[str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each topic with those of its configs that the topic itself sets. Raises `WireError`, `Refused`.

    Topics that were deleted meanwhile are left out.
    """
    for at in range(0, len(topics), _TOPICS_A_REQUEST):
        for result in _describe_configs(connection, TOPIC, topics[at : at + _TOPICS_A_REQUEST], names):
            if result.error_code == UNKNOWN_TOPIC:
                continue
            own = {one.name: one.value for one in result.configs if one.config_source == _TOPIC_LEVEL}
            yield result.resource_name, {name: value for name, value in own.items() if value is not None}


def ask_broker_configs(connection: BrokerConnection, broker: int, names: Sequence[str]) -> dict[str, str]:
    """Return the broker's own effective configs. Raises `WireError`, `Refused`."""
    (result,) = _describe_configs(connection, BROKER, [str(broker)], names)
    return {one.name: one.value for one in result.configs if one.value is not None and one.name in names}


def _describe_configs(
    connection: BrokerConnection, kind: int, resources: Sequence[str], names: Sequence[str]
) -> list[Any]:
    answers = connection.describe_configs(kind, resources, names)
    for one in answers:
        if one.error_code != UNKNOWN_TOPIC or kind != TOPIC:
            check(one.error_code, one.error_message)
    return answers


def ask_reassignments(connection: BrokerConnection, timeout_ms: int) -> dict[tuple[str, int], Any]:
    """Return the reassignments under way by partition. Raises `WireError`, `Refused`."""
    asked = ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=None)
    answer = connection.ask(asked, ListPartitionReassignmentsResponse, 0)
    check(answer.error_code, answer.error_message)
    return {(topic.name, one.partition_index): one for topic in answer.topics for one in topic.partitions}
