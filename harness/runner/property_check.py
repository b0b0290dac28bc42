"""Chooses the properties of a scenario to ask Kafka about, and the node to ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from packaging.version import Version

from cluster.runtime.base import NodeInfo
from cluster.runtime.properties import BROKER_PORT, CONTROLLER_PORT
from ebbtide.errors import UsageError
from ebbtide.releases import first_with
from ebbtide.scenario.absent_words import absent_word
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.refused_settings import RefusedByKafka, allowed_or_near
from workloads.config import ScenarioProperties, UnknownProperty

_PROPERTIES = "properties of this release"
_KAFKAS_OWN = "org.apache.kafka."


class PropertyCheck(NamedTuple):
    """The properties to ask about, and the roles that cannot be checked.

    A sentence describes each role whose properties no node can check.
    """

    asked: list[ScenarioProperties]
    unasked: list[str]


def properties_to_check(scenario: Scenario, nodes: Iterable[NodeInfo]) -> PropertyCheck:
    """Return the properties of each role with the node to ask.

    `scenario` names only the release that runs.
    """
    cluster, kafka = scenario.cluster, Version(scenario.kafka[0])
    first = {node.role: node for node in sorted(nodes, key=lambda node: node.id, reverse=True)}
    given = PropertyCheck(asked=[], unasked=[])
    for node, port in ((first["broker"], BROKER_PORT), (first["controller"], CONTROLLER_PORT)):
        properties = cluster.properties_of(node.role)
        if not properties:
            continue
        unasked = f"the names in cluster.{node.role}_properties are not checked: "
        if plug_in := _plug_in_class(properties):
            given.unasked.append(f"{unasked}{plug_in} may have some of its own")
        elif node.role == "controller" and kafka < first_with.CONTROLLERS_DESCRIBE_CONFIGS:
            given.unasked.append(f"{unasked}controllers answer since Kafka {first_with.CONTROLLERS_DESCRIBE_CONFIGS}")
        else:
            address = f"{node.address}:{port}"
            given.asked.append(
                ScenarioProperties(role=node.role, names=tuple(properties), node=node.id, address=address)
            )
    return given


def unknown_properties_error(unknown: Sequence[UnknownProperty]) -> RefusedByKafka:
    """Return the error for properties that Kafka does not know.

    `unknown` has at least one.
    """
    names = ", ".join(one.name for one in unknown)
    return RefusedByKafka(
        f"Kafka does not know {names}, and ignores {'it' if len(unknown) == 1 else 'them'}",
        [
            UsageError(
                _unknown_sentence(one.name),
                where=f"{one.table}.{one.name}",
                allowed=allowed_or_near(_PROPERTIES, [one.near]),
            )
            for one in unknown
        ],
        allowed=allowed_or_near(_PROPERTIES, [one.near for one in unknown]),
    )


def _unknown_sentence(name: str) -> str:
    sentence = absent_word(name, "properties")
    return f"Kafka does not know {name}, and ignores it" + ("" if sentence is None else f": {sentence}")


def _plug_in_class(properties: Mapping[str, str]) -> str:
    """Return the first class in the properties that is not Kafka's own, or ""."""
    for name, value in properties.items():
        if ".class" in name or name.endswith("reporters"):
            for one in map(str.strip, value.split(",")):
                if one and not one.startswith(_KAFKAS_OWN):
                    return one
    return ""
