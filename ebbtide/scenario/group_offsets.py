"""The topic `__consumer_offsets`, in which groups keep their commits, as scenarios name it."""

from __future__ import annotations

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITION = 0
"""The only partition of the topic on Ebbtide's clusters; every group's coordinator is its leader."""

OFFSETS_TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": str(100 << 20),
}
"""The configs with which brokers would create the topic."""
