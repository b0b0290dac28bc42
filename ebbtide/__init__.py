"""Ebbtide: fault injection against real Apache Kafka.

Can this lose my data, and does the protocol allow it?

For tests and notebooks. The roles of a scenario file are functions here: `chaos.power_loss(leader("t-0"))`. See
docs/pytest.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ebbtide.pytest_plugin.kafka_cluster import Chaos, KafkaCluster
    from ebbtide.pytest_plugin.run_record import RunRecord

__version__ = "0.4.0"

__all__ = [
    "Chaos",
    "KafkaCluster",
    "RunRecord",
    "Watch",
    "broker",
    "brokers",
    "clients",
    "controller",
    "controllers",
    "elr",
    "followers",
    "isr",
    "last_known_elr",
    "last_known_leader",
    "leader",
    "longest_log",
    "replicas",
    "step",
]

brokers, clients, controller, controllers = "brokers", "clients", "controller", "controllers"


def leader(partition: str) -> str:
    """Name the leader of `topic-partition` at the moment the step fires."""
    return f"leader({partition})"


def followers(partition: str) -> str:
    """Name the replicas of a partition that do not lead."""
    return f"followers({partition})"


def isr(partition: str) -> str:
    """Name the in-sync replicas of a partition."""
    return f"isr({partition})"


def elr(partition: str) -> str:
    """Name the eligible leader replicas of a partition (KIP-966)."""
    return f"elr({partition})"


def replicas(partition: str) -> str:
    """Name every replica of a partition."""
    return f"replicas({partition})"


def last_known_leader(partition: str) -> str:
    """Name the last known leader of a partition."""
    return f"last-known-leader({partition})"


def last_known_elr(partition: str) -> str:
    """Name the LastKnownElr members of a partition, as KIP-966's text has them."""
    return f"last-known-elr({partition})"


def longest_log(partition: str) -> str:
    """Name the replica whose log ends last, alive or not."""
    return f"longest-log({partition})"


def broker(id: int) -> str:
    """Name the broker with this id."""
    return f"broker({id})"


def step(name: str) -> str:
    """Name the node on which the earlier step of this name acted."""
    return f"step({name})"


_LOADED_LATER = {
    "Chaos": "ebbtide.pytest_plugin.kafka_cluster",
    "KafkaCluster": "ebbtide.pytest_plugin.kafka_cluster",
    "RunRecord": "ebbtide.pytest_plugin.run_record",
    "Watch": "ebbtide.pytest_plugin.watching",
}


def __getattr__(name: str) -> Any:
    """Import the types of fixtures on first use.

    Every process imports this package, and few need them.
    """
    from importlib import import_module

    if name in _LOADED_LATER:
        return getattr(import_module(_LOADED_LATER[name]), name)
    raise AttributeError(f"module 'ebbtide' has no attribute {name!r}")
