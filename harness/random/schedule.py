"""Builds valid lists of steps: draws, fits and finally heals them.

Draws new steps, fits given steps to the state of the cluster, and heals everything at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from ebbtide.scenario.steps.disk import MendDiskStep
from ebbtide.scenario.steps.network import HealStep
from ebbtide.scenario.steps.process import ResumeStep, StartStep
from ebbtide.scenario.steps.step import StepSpec, WaitStep
from ebbtide.scenario.steps.table import HEALERS, KINDS, TAKES_DOWN, StepKind
from ebbtide.scenario.steps.wire import ReleaseStep
from ebbtide.scenario.triggers import AckedTrigger
from ebbtide.scenario.words import Role
from harness.random.kind import StepGenerator
from harness.random.links import LINK_KINDS, RULE_KINDS
from harness.random.nodes import NODE_KINDS
from harness.random.quorum import QUORUM_KINDS
from harness.random.requests import REQUEST_KINDS
from harness.random.upgrades import UPGRADE
from harness.random.volumes import MOVE_REPLICA, VOLUME_KINDS
from harness.random.waits import WAIT
from harness.random.world import World

GENERATORS: dict[StepKind, StepGenerator] = {
    **NODE_KINDS,
    **VOLUME_KINDS,
    **LINK_KINDS,
    **RULE_KINDS,
    **REQUEST_KINDS,
    **QUORUM_KINDS,
    "move-replica": MOVE_REPLICA,
    "upgrade": UPGRADE,
    "wait": WAIT,
}


FIRST_ACKED = 200
_HEAL_EARLIER_S = 10.0
"""After an outage of this length, healing steps are drawn twice as often.

So are failures while a broker returns: it truncates its log then, and fetches what it lacks (KIP-101, KIP-279).
"""


def build_steps(world: World, slots: Iterable[StepSpec | None], random: Random) -> tuple[StepSpec, ...]:
    """Return the valid steps of `slots`, fitted to the cluster; None draws a step.

    The schedule begins with a wait until clients are at work, and ends with everything healed. Changes `world`.
    """
    steps: list[StepSpec] = [WaitStep(trigger=AckedTrigger(records=FIRST_ACKED), deadline_s=60.0)]
    for slot in slots:
        if world.is_outage_long:
            _append(world, steps, _healing_steps(world)[:1])
        step = _fit(world, slot) if slot is not None else _draw_step(world, random)
        if step is not None:
            _append(world, steps, [step])
    while healing := _healing_steps(world):
        _append(world, steps, healing[:1])
    return tuple(steps)


def without_frame(steps: Iterable[StepSpec]) -> list[StepSpec]:
    """Return the steps without the first wait and the healing steps at the end."""
    slots = [step for step in steps if not isinstance(step.trigger, AckedTrigger)]
    while slots and slots[-1].step in HEALERS:
        slots.pop()
    return slots


def _append(world: World, steps: list[StepSpec], taken: Iterable[StepSpec]) -> None:
    for step in taken:
        fitted = _fit(world, step)
        assert fitted is not None, f"an invalid {step.step} was about to be added to the schedule"
        GENERATORS[fitted.step].carry_out(world, fitted)
        steps.append(fitted)


def _fit(world: World, step: StepSpec) -> StepSpec | None:
    if step.step in world.without:
        return None
    bare = step.replace(name=None) if step.name is not None else step
    return GENERATORS[step.step].fit(world, bare)


def _draw_step(world: World, random: Random) -> StepSpec | None:
    kinds: list[StepKind] = sorted(GENERATORS)
    for _ in range(20):
        kind = random.choices(kinds, [_weight(world, one) for one in kinds])[0]
        step = GENERATORS[kind].propose(world, random)
        fitted = _fit(world, step) if step is not None else None
        if fitted is not None:
            return fitted
    return None


def _weight(world: World, kind: StepKind) -> float:
    since_s = world.outage_since_s
    long_broken = since_s is not None and world.used_s - since_s > _HEAL_EARLIER_S
    hurry = (kind in HEALERS and long_broken) or (kind == "upgrade" and world.is_mixed)
    second = kind in TAKES_DOWN and any(broker.returning for broker in world.brokers.values())
    return KINDS[kind].weight * (2.0 if hurry or second else 1.0)


def _healing_steps(world: World) -> list[StepSpec]:
    """Return the steps that heal everything, in a valid order.

    Connections come before nodes, and volumes before starts.
    """
    steps: list[StepSpec] = []
    if world.rules:
        steps.append(ReleaseStep(optional=True))
    if world.cut or world.slowed:
        steps.append(HealStep())
    if world.controller != "up":
        kind = ResumeStep if world.controller == "paused" else StartStep
        steps.append(kind(target=Role.of_step(str(world.controller_step))))
    brokers = world.brokers.items()
    steps += [ResumeStep(target=Role.of_broker(one)) for one, at in brokers if at.process == "paused"]
    steps += [MendDiskStep(target=Role.of_broker(one)) for one, at in brokers if at.sick]
    steps += [StartStep(target=Role.of_broker(one)) for one, at in brokers if at.process == "down"]
    return steps
