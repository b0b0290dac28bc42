"""Checks feature levels and upgrades against what Kafka allows, as far as the file alone says.

A release must be able to format storage with the levels of the cluster. The check of upgrades follows the releases of
the nodes and the finalised feature levels through the schedule. An error is a step that is wrong whatever the roles
before it stood for:

- an upgrade of nodes that run the release already,
- an upgrade to a release that does not know a finalised level, which Kafka refuses,
- a feature level that a node does not know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from ebbtide.errors import UsageError
from ebbtide.releases import first_with
from ebbtide.releases.feature_levels import levels_of, metadata_version_name, uses_metadata_version_name
from ebbtide.releases.known_releases import ELR_VERSION, KRAFT_VERSION, METADATA_VERSION, version_of
from ebbtide.scenario.model import ClusterSpec, Scenario
from ebbtide.scenario.steps.admin import SetFeatureStep
from ebbtide.scenario.steps.process import UpgradeStep
from ebbtide.scenario.words import FIRST_CONTROLLER, Role
from ebbtide.suggestions import bracketed_suggestion, nearest_words

FEATURES = (
    METADATA_VERSION,
    ELR_VERSION,
    KRAFT_VERSION,
    "transaction.version",
    "group.version",
    "share.version",
    "streams.version",
)
"""The features that Kafka finalises, from its `Feature` enum, `MetadataVersion` and `KRaftVersion`."""

_UNSTABLE = "unstable.feature.versions.enable"
_ENDING = ".version"
_INITIALS_MIN = 2
_ABSENT = range(1)
"""Level 0 of a feature that a release does not have says what is so anyway."""

_DYNAMIC = {KRAFT_VERSION: 1}
"""The level that a dynamic quorum is formed with."""
_OFF = range(1)
"""The levels of a feature that a release does not have."""


def validate_feature_name(name: str, where: str) -> Iterator[UsageError]:
    """A feature that no release has."""
    if name not in FEATURES:
        allowed = ", ".join(FEATURES) + _suggested_feature(name)
        yield UsageError("unknown feature", where=where, got=repr(name), allowed=allowed)


def _suggested_feature(name: str) -> str:
    """Return in brackets the feature that was probably meant, or an empty text.

    Every name ends with `.version`, so that this part makes no feature resemble another name.
    """
    features = {one.removesuffix(_ENDING): one for one in FEATURES}
    initials = _feature_of_initials(name)
    if initials is not None:
        return bracketed_suggestion(initials, FEATURES)
    first, dot, last = name.replace("-", ".").replace("_", ".").rpartition(".")
    own = first if dot and nearest_words(f".{last}", [_ENDING]) else name
    return bracketed_suggestion(own, features, shown=features)


def _feature_of_initials(name: str) -> str | None:
    """Return the only feature that people call by these initials, such as `elr`, `elr.version` or `tv2`."""
    short = name.lower().partition(".")[0].rstrip("0123456789")
    found = [one for one in FEATURES if "".join(word[0] for word in one.split(".")).startswith(short)]
    return found[0] if len(short) >= _INITIALS_MIN and len(found) == 1 else None


def has_level(kafka: str, name: str, level: int, cluster: ClusterSpec) -> bool:
    """Whether a cluster of release `kafka` can come to this level.

    The cluster is set up like this one. The answer holds as far as is known.
    """
    if name == KRAFT_VERSION:
        # A static quorum is formatted with level 0, and may come to others afterwards.
        return level == 0 or version_of(kafka) >= first_with.DYNAMIC_QUORUM
    try:
        validate_features(kafka, msgspec.structs.replace(cluster, features={name: level}))
    except UsageError:
        return False
    return True


def validate_features(kafka: str, cluster: ClusterSpec, *, where: str = "cluster.features, or --feature") -> None:
    """Raise `UsageError` if release `kafka` cannot format with the cluster's levels.

    The answer holds as far as is known. `where` is the place that names the levels.
    """
    known = levels_of(kafka)
    properties = (cluster.controller_properties, cluster.broker_properties)
    if known is not None and not any(one.get(_UNSTABLE) == "true" for one in properties):
        refused = {name: level for name, level in cluster.features.items() if level not in known.get(name, _ABSENT)}
        if refused:
            raise UsageError(
                f"Kafka {kafka} cannot be formatted with {'this level' if len(refused) == 1 else 'these levels'}",
                where=where,
                got=", ".join(f"{name} = {level}" for name, level in refused.items()),
                allowed="; ".join(_allowed_levels(name, known.get(name)) for name in refused),
                next="ebbtide kafka list",
            )
    level = cluster.features.get(METADATA_VERSION)
    if level is not None and uses_metadata_version_name(kafka):
        metadata_version_name(level, kafka)


def _allowed_levels(name: str, levels: range | None) -> str:
    if levels is None:
        return f"no {name}, which this release does not have"
    return f"{name} {levels[0]}" + (f" to {levels[-1]}" if len(levels) > 1 else "")


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
            allowed=f"{'; '.join(_levels_after(to, name) for name in unknown)} ({lower})",
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


def _levels_after(kafka: str, feature: str) -> str:
    if feature == KRAFT_VERSION:
        return f"Kafka {first_with.DYNAMIC_QUORUM} or later for a dynamic quorum"
    return _allowed_levels(feature, (levels_of(kafka) or {}).get(feature, _OFF))
