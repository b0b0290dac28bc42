"""Asks a node which settings it knows, so that an error can name the one that was meant."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)

from cluster.kafka_api.connection import BrokerConnection

TOPIC, BROKER = 2, 4
"""Kafka's codes of the kinds of resources that have settings."""
INVALID_CONFIG = 40
_DESCRIBE_CONFIGS_VERSION = 3
"""The first version with types; every KRaft release supports it."""
_CREATE_TOPICS_VERSION = 5
"""The first version that answers with the settings of the topic (KIP-525)."""
_CREATE_TOPICS_MS = 5_000


def ask_configs(connection: BrokerConnection, kind: int, name: str) -> Any:
    """Return the answer with all settings of a resource: an error code, and the settings with their types.

    Sends DescribeConfigs v3. Raises `WireError`.
    """
    resource = DescribeConfigsRequest.DescribeConfigsResource
    wish = DescribeConfigsRequest(
        resources=[resource(resource_type=kind, resource_name=name, configuration_keys=None)],
        include_synonyms=False,
        include_documentation=False,
    )
    (answer,) = connection.ask(wish, DescribeConfigsResponse, _DESCRIBE_CONFIGS_VERSION).results
    return answer


def known_topic_settings(connection: BrokerConnection, new_topic: str) -> frozenset[str]:
    """Return the settings that a topic may have on this cluster; empty if Kafka does not say.

    No topic needs to exist: CreateTopics v5 only checks a topic `new_topic`, which is not there, and answers with all
    its settings. Raises `WireError`.
    """
    topic = CreateTopicsRequest.CreatableTopic(
        name=new_topic, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    wish = CreateTopicsRequest(topics=[topic], timeout_ms=_CREATE_TOPICS_MS, validate_only=True)
    (answer,) = connection.ask(wish, CreateTopicsResponse, _CREATE_TOPICS_VERSION).topics
    return frozenset(one.name for one in answer.configs or ())
