"""Which properties of a scenario Kafka is asked about, and which node is asked."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.version import Version

from harness.runtime.base import NodeInfo
from harness.runtime.properties import BROKER_PORT, CONTROLLER_PORT
from harness.scenario.model import Scenario
from workloads.config import GivenProperties

_CONTROLLERS_ANSWER_SINCE = Version("3.7.0")
"""The first release whose controllers answer clients (KIP-919)."""


def given_properties(scenario: Scenario, nodes: Iterable[NodeInfo]) -> list[GivenProperties]:
    """Those of each role that has any, with its first node; `scenario` names the one release that is run."""
    cluster = scenario.cluster
    first = {node.role: node for node in sorted(nodes, key=lambda node: node.id, reverse=True)}
    wished = [(first["broker"], BROKER_PORT, cluster.broker_properties)]
    if Version(scenario.kafka[0]) >= _CONTROLLERS_ANSWER_SINCE:
        wished.append((first["controller"], CONTROLLER_PORT, cluster.controller_properties))
    return [
        GivenProperties(role=node.role, names=tuple(names), node=node.id, address=f"{node.address}:{port}")
        for node, port, names in wished
        if names
    ]
