"""Checks upgrades against what Kafka allows, as far as the file alone says.

It follows the releases of the nodes and the finalised feature levels through the schedule. An error is a step that is
wrong whatever the roles before it stood for:

- an upgrade of nodes that run the release already,
- an upgrade to a release that does not know a finalised level, which Kafka refuses,
- a feature level that a node does not know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ebbtide.errors import UsageError
from ebbtide.releases import first_with
from ebbtide.releases.feature_levels import levels_of
from ebbtide.releases.known_releases import KRAFT_VERSION
from ebbtide.scenario.model import ClusterSpec, Scenario
from ebbtide.scenario.roles import FIRST_CONTROLLER, Role
from ebbtide.scenario.steps.admin import SetFeatureStep
from ebbtide.scenario.steps.process import UpgradeStep
from ebbtide.scenario.validate_features import FEATURES, has_level

_DYNAMIC = {KRAFT_VERSION: 1}
"""The level that a dynamic quorum is formed with."""
_OFF = range(1)
"""The levels of a feature that a release does not have."""


def validate_upgrades(scenario: Scenario) -> Iterator[UsageError]:
    """Report the upgrades and feature levels that are impossible, on each release of the file."""
    if scenario.other_releases:
        for kafka in scenario.kafka:
            yield from _follow(scenario, kafka)


class _Nodes:
    """The releases that each node may run, and the levels that each feature may have."""

    def __init__(self, kafka: str, controllers: int, brokers: int, features: Mapping[str, int]) -> None:
        newest = {name: levels[-1] for name, levels in (levels_of(kafka) or {}).items()}
        self.controllers = [f"controller-{FIRST_CONTROLLER + one}" for one in range(controllers)]
        self.brokers = [f"broker-{one}" for one in range(1, brokers + 1)]
        self.releases = {name: {kafka} for name in (*self.controllers, *self.brokers)}
        self.levels = {name: {level} for name, level in {**newest, **features}.items()}

    def of(self, role: Role | None) -> tuple[Collection[str], bool]:
        """Return the nodes that a role may stand for, and whether it surely stands for all of them."""
        match None if role is None else role.kind:
            case None | "brokers":
                return self.brokers, True
            case "controllers":
                return self.controllers, True
            case "controller" if role is not None and role.controller is not None:
                name = f"controller-{role.controller}"
                return ([name], True) if name in self.releases else ((), True)
            case "controller":
                return self.controllers, len(self.controllers) == 1
            case "broker":
                name = f"broker-{role.broker if role is not None else ''}"
                return ([name], True) if name in self.releases else ((), True)
            case "step":
                return tuple(self.releases), False
        return self.brokers, False


def _follow(scenario: Scenario, kafka: str) -> Iterator[UsageError]:
    cluster, formed_on = scenario.cluster, scenario.cluster.formed_on
    levels = {**cluster.features, **(_DYNAMIC if cluster.has_dynamic_quorum else {})}
    nodes = _Nodes(formed_on or kafka, cluster.controllers, cluster.brokers, levels)
    if formed_on is not None:
        lower = "name a lower level in cluster.features"
        yield from _move(nodes, cluster, nodes.releases, kafka, "cluster.formed_on", formed_on, lower)
        nodes.releases = {name: {kafka} for name in nodes.releases}
    targets = [step.to for step in scenario.steps if isinstance(step, UpgradeStep)]
    for at, step in enumerate(scenario.steps):
        if isinstance(step, UpgradeStep):
            yield from _upgrade(nodes, cluster, step, f"steps[{at}]")
        elif isinstance(step, SetFeatureStep):
            yield from _set_feature(nodes, cluster, step, f"steps[{at}].level", (kafka, *targets))


def _upgrade(nodes: _Nodes, cluster: ClusterSpec, step: UpgradeStep, where: str) -> Iterator[UsageError]:
    names, surely = nodes.of(step.target)
    lower = "set a lower level before; a step can expect it: expect_refusal = true"
    found = list(_move(nodes, cluster, names, step.to, f"{where}.to", step.to, lower))
    if step.expect_refusal:
        return
    yield from found
    for name in names:
        nodes.releases[name] = {step.to} if surely else nodes.releases[name] | {step.to}


def _move(
    nodes: _Nodes, cluster: ClusterSpec, names: Collection[str], to: str, where: str, got: str, lower: str
) -> Iterator[UsageError]:
    """Report why nodes cannot move to a release: they run it already, or it does not know a level of the cluster.

    `lower` says how the cluster gets a lower level.
    """
    if names and all(nodes.releases[name] == {to} for name in names):
        yield UsageError(
            "an upgrade to the same release",
            where=where,
            got=f"{got}, which {', '.join(names)} {'runs' if len(names) == 1 else 'run'} already",
            allowed="another release",
        )
    unknown = [
        name
        for name, levels in nodes.levels.items()
        if not any(level == 0 or has_level(to, name, level, cluster) for level in levels)
    ]
    if unknown:
        yield UsageError(
            f"Kafka refuses this: {to} does not know a feature level of the cluster",
            where=where,
            got=", ".join(f"{name} = {max(nodes.levels[name])}" for name in unknown),
            allowed=f"{'; '.join(_allowed_levels(to, name) for name in unknown)} ({lower})",
        )


def _set_feature(
    nodes: _Nodes, cluster: ClusterSpec, step: SetFeatureStep, where: str, releases: Collection[str]
) -> Iterator[UsageError]:
    feature, level = step.feature, step.level
    if step.expect_error is not None:
        return
    if step.optional or feature not in FEATURES:
        nodes.levels[feature] = {*nodes.levels.get(feature, {0}), level}
        return
    nodes.levels[feature] = {level}
    if not any(has_level(one, feature, level, cluster) for one in releases):
        return  # no release has it, which is an error of its own
    for name, possible in nodes.releases.items():
        if not any(has_level(one, feature, level, cluster) for one in possible):
            yield UsageError(
                "a feature level that a node does not know yet",
                where=where,
                got=f"{feature} = {level} while {name} runs Kafka {', '.join(sorted(possible))}",
                allowed="upgrade every node before, or expect_error = 'INVALID_UPDATE_VERSION'",
            )
            return


def _allowed_levels(kafka: str, feature: str) -> str:
    if feature == KRAFT_VERSION:
        return f"Kafka {first_with.DYNAMIC_QUORUM} or later for a dynamic quorum"
    levels = (levels_of(kafka) or {}).get(feature, _OFF)
    return f"{feature} {levels[0]} to {levels[-1]}" if len(levels) > 1 else f"{feature} {levels[0]}"
