"""Generates upgrades: the controllers first, then broker by broker, and now and then a broker back.

The cluster is whole before each, and the step itself waits until it is whole again. Feature levels stay those of the
first release, so that a broker can go back at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from ebbtide.releases.feature_levels import levels_of
from ebbtide.releases.known_releases import next_release
from ebbtide.scenario.steps.process import UpgradeStep
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.words import Role
from harness.random.kind import StepGenerator, draw_delay, with_time_trigger
from harness.random.nodes import is_whole
from harness.random.world import CONTROLLER, World

_DEADLINE_S = 90.0
_SHARE_OF_ROLLBACKS = 0.3
_SHARE_OF_WHOLE_ROLLS = 0.5
_CONTROLLERS = Role("controllers")


def upgrade_target(kafka: str, features: Mapping[str, int]) -> str | None:
    """Return the next release that knows every feature level of a cluster of `kafka`; None if there is none."""
    target, known = next_release(kafka), levels_of(kafka)
    levels = levels_of(target) if target is not None else None
    if known is None or levels is None:
        return None
    formed = {name: of_feature[-1] for name, of_feature in known.items()} | dict(features)
    knows_all = all(level == 0 or level in levels.get(name, ()) for name, level in formed.items())
    return target if knows_all else None


def _propose(world: World, random: Random) -> StepSpec | None:
    if world.upgrade_to is None or not is_whole(world):
        return None
    trigger = draw_delay(random)
    if CONTROLLER not in world.upgraded:
        return UpgradeStep(target=_CONTROLLERS, to=world.upgrade_to, trigger=trigger)
    old = sorted(world.brokers.keys() - world.upgraded)
    new = sorted(world.brokers.keys() & world.upgraded)
    if old and random.random() < _SHARE_OF_WHOLE_ROLLS:
        return UpgradeStep(to=world.upgrade_to, trigger=trigger)
    back = bool(new) and (not old or random.random() < _SHARE_OF_ROLLBACKS)
    broker = random.choice(new if back else old)
    return UpgradeStep(target=Role.of_broker(broker), to=world.release if back else world.upgrade_to, trigger=trigger)


def _fit(world: World, step: UpgradeStep) -> StepSpec | None:
    """Return the upgrade to the release that its node can be moved to now."""
    if world.upgrade_to is None or step.expect_refusal or not is_whole(world):
        return None
    nodes = _nodes_of(world, step)
    if nodes == {CONTROLLER}:
        if CONTROLLER in world.upgraded:
            return None
        step = step.replace(target=_CONTROLLERS)
    elif not nodes or CONTROLLER not in world.upgraded:
        return None
    to = world.release if nodes <= world.upgraded else world.upgrade_to
    return with_time_trigger(step).replace(to=to, deadline_s=_DEADLINE_S)


def _nodes_of(world: World, step: UpgradeStep) -> set[int]:
    """Return the nodes that a step moves, the controllers as one; empty for nodes that are unknown."""
    if step.target is None:
        return set(world.brokers)
    who = world.id_of(step.target)
    return {who} if who == CONTROLLER or who in world.brokers else set()


def _apply(world: World, step: UpgradeStep) -> float:
    nodes = _nodes_of(world, step)
    moved = nodes - world.upgraded if step.to == world.upgrade_to else nodes
    world.upgraded ^= moved
    for broker in moved & world.brokers.keys():
        # It stops cleanly, and is in every ISR again when the step ends.
        world.replication.ended[broker] = True
    return step.kind.lasts_s * len(moved)


UPGRADE = StepGenerator(propose=_propose, fit=_fit, apply=_apply)
