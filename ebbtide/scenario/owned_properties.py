"""The properties of a node that no scenario can set.

They tie the node to its network and volume.
"""

from __future__ import annotations

HARNESS_OWNED = frozenset(
    {
        "process.roles",
        "node.id",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "controller.listener.names",
        "listeners",
        "listener.security.protocol.map",
        "inter.broker.listener.name",
        "advertised.listeners",
        "log.dirs",
        "metadata.log.dir",
    }
)
"""What ties a node to its namespace and volume; a scenario cannot set these."""

_OUTWARD = frozenset({"kafka.metrics.reporters", "kafka.csv.metrics.dir"})
"""KafkaCSVMetricsReporter, which every release has, removes the folder that its property names, and fills it again."""
_CODE = ".class.path"
"""The end of names that say where Kafka loads a plug-in's code from, such as remote.log.storage.manager.class.path."""


def leads_out(name: str) -> bool:
    """Whether Kafka would use a path of the host that this property names.

    Kafka would write to it or run it, so a scenario cannot set the property.
    """
    return name in _OUTWARD or name.endswith(_CODE)
