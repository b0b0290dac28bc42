"""Kafka's own topics, whose replication a scenario may say: their names, and the configs that brokers give them."""

from __future__ import annotations

from collections.abc import Mapping

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITION = 0
"""The only partition of the topic on Ebbtide's clusters; every group's coordinator is its leader."""

OFFSETS_TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": str(100 << 20),
}
"""The configs with which brokers would create the topic."""


TRANSACTIONS_TOPIC = "__transaction_state"
"""The topic in which coordinators keep the states of transactions; it has one partition on Ebbtide's clusters."""

INTERNAL_TOPICS: Mapping[str, Mapping[str, str]] = {
    OFFSETS_TOPIC: OFFSETS_TOPIC_CONFIG,
    TRANSACTIONS_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "segment.bytes": str(100 << 20),
        "unclean.leader.election.enable": "false",
    },
}
"""The configs with which brokers would create each topic."""

PARTITIONS_PROPERTIES: Mapping[str, str] = {
    OFFSETS_TOPIC: "offsets.topic.num.partitions",
    TRANSACTIONS_TOPIC: "transaction.state.log.num.partitions",
}
"""The brokers' property with the number of partitions that they expect of each."""
