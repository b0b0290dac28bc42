"""Finds the settings for which Kafka refuses a topic."""

from __future__ import annotations

from collections.abc import Mapping

from cluster.kafka_api.config_names import known_topic_settings
from cluster.kafka_api.connection import BrokerConnection
from ebbtide.suggestions import nearest_words
from workloads.config import RefusedSetting


def find_refused_settings(
    broker: BrokerConnection, configs: Mapping[str, Mapping[str, str]], refused: str, message: str
) -> list[RefusedSetting]:
    """Return the settings of all topics that Kafka does not know, else what it says of the topic that it refused.

    `configs` are those of the topics by name, and `message` is Kafka's about `refused`. Raises `WireError`.
    """
    known = sorted(known_topic_settings(broker, refused))
    unknown = [
        RefusedSetting(
            topic=name,
            why=f"Kafka does not know {key}",
            near=next(iter(nearest_words(key, known, most=1)), ""),
            key=key,
        )
        for name, config in configs.items()
        for key in config
        if known and key not in known
    ]
    if unknown:
        return unknown
    words = {word.strip(",.:;") for word in message.split()}
    named = [key for key in configs[refused] if key in words]
    why = f"Kafka refuses the settings of a topic: {message}"
    return [RefusedSetting(topic=refused, why=why, key=named[0] if len(named) == 1 else "")]
