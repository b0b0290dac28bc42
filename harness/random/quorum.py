"""Generates changes of the voters of a dynamic quorum (KIP-853).

All are optional, and name a controller by its id: no schedule knows which one is active.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from ebbtide.errors import UsageError
from ebbtide.scenario.model import ClusterSpec
from ebbtide.scenario.steps.admin import AddVoterStep, RemoveVoterStep, VoterStep
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.steps.table import StepKind
from ebbtide.scenario.validate_quorum import validate_quorum_on
from ebbtide.scenario.words import FIRST_CONTROLLER, Role
from harness.random.kind import StepGenerator
from harness.random.requests import common_fields, fit_request
from harness.random.world import Voters, World

_CONTROLLERS = 3
_DEADLINE_S = 15.0
"""Kafka answers only once the new voters are committed, and a new one has caught up."""


def draw_quorum(random: Random, kafka: str, features: Mapping[str, int]) -> ClusterSpec | None:
    """Draw a dynamic quorum and its first voters; None if the release cannot form one."""
    initial = random.choice((None, None, 2, 1))
    spec = ClusterSpec(controllers=_CONTROLLERS, features=dict(features), quorum="dynamic", initial_voters=initial)
    try:
        validate_quorum_on(kafka, spec)
    except UsageError:
        return None
    return spec


def first_voters(cluster: ClusterSpec) -> Voters | None:
    """Return who votes before the first step; None for a static quorum."""
    if not cluster.has_dynamic_quorum:
        return None
    ids = range(FIRST_CONTROLLER, FIRST_CONTROLLER + cluster.controllers)
    voting = set(ids[: cluster.first_voters])
    return Voters(frozenset(ids), set(voting), set(ids) - voting, set(voting), len(voting))


def _propose_add(world: World, random: Random) -> StepSpec | None:
    voters = world.voters
    out = sorted(voters.controllers - voters.likely) if voters is not None else []
    return AddVoterStep(**common_fields(random), target=_controller(random.choice(out))) if out else None


def _propose_remove(world: World, random: Random) -> StepSpec | None:
    voters = world.voters
    if voters is None or len(voters.likely) < 2:
        return None
    return RemoveVoterStep(**common_fields(random), target=_controller(random.choice(sorted(voters.likely))))


def _controller(node: int) -> Role:
    return Role(f"controller({node})")


def _can_be_added(world: World, step: AddVoterStep) -> bool:
    voters, node = world.voters, step.target.controller
    return voters is not None and world.controller == "up" and node in voters.controllers - voters.sure


def _can_be_removed(world: World, step: RemoveVoterStep) -> bool:
    """Whether Kafka may remove the voter; the last one is never removed."""
    voters, node = world.voters, step.target.controller
    if voters is None or world.controller != "up" or node not in voters.controllers - voters.observers:
        return False
    return voters.most > 1 or node not in voters.sure


def _change(world: World, step: VoterStep) -> None:
    voters, node = world.voters, step.target.controller
    assert voters is not None, "a change of voters is never fitted to a static quorum"
    assert node is not None, "a change of voters names a controller by its id"
    if isinstance(step, AddVoterStep):
        voters.most += 1
        voters.observers.discard(node)
        voters.likely.add(node)
    else:
        voters.sure.discard(node)
        voters.likely.discard(node)


QUORUM_KINDS: dict[StepKind, StepGenerator] = {
    "add-voter": StepGenerator(propose=_propose_add, fit=fit_request(_can_be_added, _DEADLINE_S), apply=_change),
    "remove-voter": StepGenerator(
        propose=_propose_remove, fit=fit_request(_can_be_removed, _DEADLINE_S), apply=_change
    ),
}
