"""Ebbtide in pytest: real Kafka clusters as fixtures, scenarios as markers, verdicts as test results.

The roles of a scenario file, as words for a test: `chaos.power_loss(leader("t-0"))`. See docs/pytest.md.
"""

from __future__ import annotations

from ebbtide.pytest_plugin.chaos import Chaos
from ebbtide.pytest_plugin.kafka_cluster import KafkaCluster
from ebbtide.pytest_plugin.run_record import RunRecord

__all__ = [
    "Chaos",
    "KafkaCluster",
    "RunRecord",
    "broker",
    "brokers",
    "clients",
    "controller",
    "controllers",
    "elr",
    "followers",
    "isr",
    "last_known_leader",
    "leader",
    "replicas",
    "step",
]

brokers, clients, controller, controllers = "brokers", "clients", "controller", "controllers"


def leader(partition: str) -> str:
    """The leader of `topic-partition` at the moment the step fires."""
    return f"leader({partition})"


def followers(partition: str) -> str:
    """The replicas that do not lead."""
    return f"followers({partition})"


def isr(partition: str) -> str:
    """The in-sync replicas."""
    return f"isr({partition})"


def elr(partition: str) -> str:
    """The eligible leader replicas (KIP-966)."""
    return f"elr({partition})"


def replicas(partition: str) -> str:
    """Every replica."""
    return f"replicas({partition})"


def last_known_leader(partition: str) -> str:
    """The broker that led last."""
    return f"last-known-leader({partition})"


def broker(id: int) -> str:
    """The broker with this id."""
    return f"broker({id})"


def step(name: str) -> str:
    """Whom the earlier step of this name acted on."""
    return f"step({name})"
