"""Validates the quorum of a cluster, the steps that change who votes in it (KIP-853), and log directories (KIP-858).

The voters are followed through the schedule as far as the file alone says who they are. An error is a step that Kafka
refuses whatever the roles before it stood for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ebbtide.errors import UsageError
from ebbtide.releases import first_with
from ebbtide.releases.feature_levels import METADATA_VERSIONS
from ebbtide.releases.first_with import SEVERAL_LOG_DIRS
from ebbtide.releases.known_releases import METADATA_VERSION, version_of
from ebbtide.scenario.model import ClusterSpec, Scenario
from ebbtide.scenario.references import limit
from ebbtide.scenario.steps.admin import AddVoterStep, VoterStep
from ebbtide.scenario.steps.process import UpgradeStep
from ebbtide.scenario.steps.step import target_of
from ebbtide.scenario.words import FIRST_CONTROLLER, Role

_STATIC_SIZES = (1, 3)
_DYNAMIC_MAX = 3
"""As many controllers as a small machine carries beside its brokers."""

_OLDEST_METADATA_VERSION = "3.9-IV0"
"""kraft.version 1 depends on it (`KRaftVersion.dependencies`)."""


def validate_quorum(cluster: ClusterSpec, releases: Sequence[str]) -> Iterator[UsageError]:
    """Report a number of controllers or voters that no cluster has, and releases that cannot form such a quorum."""
    where = "cluster.controllers"
    if cluster.has_dynamic_quorum:
        yield from limit(where, cluster.controllers, 1, _DYNAMIC_MAX)
    elif cluster.controllers not in _STATIC_SIZES:
        got, allowed = str(cluster.controllers), "1 or 3, or 2 with quorum = 'dynamic'"
        yield UsageError("not a quorum size", where=where, got=got, allowed=allowed)
    yield from _initial_voters(cluster)
    formers = releases if cluster.formed_on is None else (cluster.formed_on,)
    old = [one for one in formers if cluster.has_dynamic_quorum and version_of(one) < first_with.DYNAMIC_QUORUM]
    if old:
        yield _too_old(old)
    elif formers:
        try:
            # What else it says is the same on all releases that have dynamic quorums.
            validate_quorum_on(formers[0], cluster)
        except UsageError as error:
            yield error


def _initial_voters(cluster: ClusterSpec) -> Iterator[UsageError]:
    where = "cluster.initial_voters"
    if cluster.initial_voters is None:
        return
    if not cluster.has_dynamic_quorum:
        yield UsageError(
            "all controllers of a static quorum vote",
            where=where,
            got=str(cluster.initial_voters),
            allowed="no initial_voters, or quorum = 'dynamic'",
        )
    else:
        most = max(1, cluster.controllers)
        yield from limit(where, cluster.initial_voters, 1, most, why="the number of controllers")


def validate_quorum_on(kafka: str, cluster: ClusterSpec) -> None:
    """Raise `UsageError` if a run on release `kafka` cannot form the cluster's quorum."""
    former = cluster.formed_on or kafka
    if cluster.has_dynamic_quorum and version_of(former) < first_with.DYNAMIC_QUORUM:
        raise _too_old([former])
    level = cluster.features.get(METADATA_VERSION)
    oldest = METADATA_VERSIONS[_OLDEST_METADATA_VERSION]
    if cluster.has_dynamic_quorum and level is not None and level < oldest:
        raise UsageError(
            "a metadata.version without dynamic quorums",
            where="cluster.features, or --feature",
            got=f"{METADATA_VERSION} = {level} with quorum = 'dynamic'",
            allowed=f"{METADATA_VERSION} {oldest} ({_OLDEST_METADATA_VERSION}) or more",
            next="name another level, or leave `quorum` out of [cluster]",
        )


def _too_old(releases: Sequence[str]) -> UsageError:
    return UsageError(
        "these releases have no dynamic quorum" if len(releases) > 1 else "this release has no dynamic quorum",
        where="cluster.quorum",
        got=f"quorum = 'dynamic' on Kafka {', '.join(releases)}",
        allowed=f"Kafka {first_with.DYNAMIC_QUORUM} or later",
        next="name such a release, as in --kafka 3.9.1, or leave `quorum` out of [cluster]",
    )


def validate_voter_steps(scenario: Scenario) -> Iterator[UsageError]:
    """Report steps that add or remove voters where Kafka surely refuses."""
    cluster = scenario.cluster
    voters = _Voters(min(cluster.controllers, _DYNAMIC_MAX), cluster.first_voters)
    for index, step in enumerate(scenario.steps):
        where = f"steps[{index}]"
        if isinstance(step, VoterStep):
            if cluster.has_dynamic_quorum:
                yield from _change(voters, step, where)
            else:
                yield UsageError(
                    "the voters of a static quorum cannot change",
                    where=f"{where}.step",
                    got=step.step,
                    allowed="quorum = 'dynamic' in [cluster]",
                )
        role = target_of(step)
        if role is not None and step.name is not None:
            voters.named[step.name] = voters.id_of(role)
            if not voters.may_be_one(role):
                voters.no_controllers.add(step.name)


class _Voters:
    """The controllers that surely vote, and those that surely do not; `most`: how many can vote at most."""

    def __init__(self, controllers: int, first: int) -> None:
        ids = range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers)
        self.sure, self.observers = set(ids[:first]), set(ids[first:])
        self.most = first
        self.named: dict[str, int | None] = {}
        self.no_controllers: set[str] = set()
        """Steps that surely act on something else than one controller."""

    def may_be_one(self, role: Role) -> bool:
        """Whether the role may stand for one controller."""
        if role.kind == "step":
            return role.argument not in self.no_controllers
        return role.kind == "controller"

    def id_of(self, role: Role) -> int | None:
        """Return the controller that the role surely stands for."""
        return self.named.get(str(role.argument)) if role.kind == "step" else role.controller

    def add(self, node: int | None, *, surely: bool) -> None:
        """Make a node a voter; an unknown one may be any."""
        self.most += 1
        self.observers -= self.observers if node is None else {node}
        if surely and node is not None:
            self.sure.add(node)

    def remove(self, node: int | None, *, surely: bool) -> None:
        """Make a node an observer; an unknown one may be any."""
        self.sure -= self.sure if node is None else {node}
        if surely:
            self.most -= 1
            self.observers |= set() if node is None else {node}


def _change(voters: _Voters, step: VoterStep, where: str) -> Iterator[UsageError]:
    target = step.target
    if not voters.may_be_one(target):
        named = ", a step on other nodes" if target.kind == "step" else ""
        yield UsageError(
            "not one controller",
            where=f"{where}.target",
            got=f"{target!r}{named}",
            allowed="'controller(ID)', 'controller' or 'step(NAME)'",
        )
        return
    if step.expect_error is not None:
        return
    node, is_active = voters.id_of(target), target.kind == "controller" and target.controller is None
    problem = _why_refused_add if isinstance(step, AddVoterStep) else _why_refused_remove
    if (error := problem(voters, node, is_active=is_active)) is not None:
        what, allowed = error
        yield UsageError(what, where=f"{where}.target", got=repr(target), allowed=allowed)
    change = voters.add if isinstance(step, AddVoterStep) else voters.remove
    change(node, surely=not step.optional)


def _why_refused_add(voters: _Voters, node: int | None, *, is_active: bool) -> tuple[str, str] | None:
    if is_active or node in voters.sure:
        allowed = "a controller that an earlier `remove-voter` removes, or one beyond cluster.initial_voters"
        return "an add-voter of a controller that is a voter already", f"{allowed}; or expect_error = 'DUPLICATE_VOTER'"
    return None


def _why_refused_remove(voters: _Voters, node: int | None, *, is_active: bool) -> tuple[str, str] | None:
    if node in voters.observers:
        allowed = "a voter, or expect_error = 'VOTER_NOT_FOUND'"
        return "a remove-voter of a controller that is no voter", allowed
    if voters.most <= 1 and (is_active or node in voters.sure):
        return "a remove-voter of the last voter", "one of several voters, e.g. after an `add-voter`"
    return None


MAX_LOG_DIRS = 3
"""Each is a volume of its own, for every broker."""

ASSIGNED_SINCE = "3.7-IV2"
"""The first metadata.version that assigns replicas to log directories."""


def validate_log_dirs(scenario: Scenario) -> Iterator[UsageError]:
    """Report a number of log directories that is out of range, or that a release cannot work with."""
    cluster, count = scenario.cluster, scenario.cluster.log_dirs
    if count is None:
        return
    yield from limit("cluster.log_dirs", count, 1, MAX_LOG_DIRS)
    if count == 1:
        return
    releases = [("kafka", one) for one in scenario.kafka]
    if cluster.formed_on is not None:
        releases.append(("cluster.formed_on", cluster.formed_on))
    releases += [("an upgrade", step.to) for step in scenario.steps if isinstance(step, UpgradeStep)]
    old = [f"{release} ({where})" for where, release in releases if version_of(release) < SEVERAL_LOG_DIRS]
    if old:
        yield UsageError(
            "a release without KIP-858: it cannot lose one of several log directories",
            where="cluster.log_dirs",
            got=f"{count}, with Kafka {', '.join(dict.fromkeys(old))}",
            allowed=f"Kafka {SEVERAL_LOG_DIRS} and newer, or log_dirs = 1",
        )
    yield from _level_without(count, cluster.features)


def validate_directory(scenario: Scenario, directory: int | None, where: str) -> Iterator[UsageError]:
    """Report a log directory that brokers do not have."""
    if directory is None:
        return
    count = scenario.cluster.log_dirs or 1
    if count == 1:
        yield UsageError(
            "brokers have only one log directory",
            where=where,
            got=str(directory),
            allowed="no such key, or log_dirs = 2 or 3 in [cluster]",
        )
    else:
        yield from limit(where, directory, 1, count, why="log_dirs")


def _level_without(count: int, features: Mapping[str, int]) -> Iterator[UsageError]:
    level, needed = features.get(METADATA_VERSION), METADATA_VERSIONS[ASSIGNED_SINCE]
    if level is not None and level < needed:
        yield UsageError(
            "a metadata.version without directory assignments (KIP-858)",
            where="cluster.log_dirs",
            got=f"{count}, with metadata.version = {level}",
            allowed=f"metadata.version {needed} ({ASSIGNED_SINCE}) and newer, or log_dirs = 1",
        )
