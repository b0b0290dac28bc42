"""Builds valid lists of steps: draws new steps, fits given ones, and heals everything at the end."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import msgspec

from ebbtide.scenario.model import StepSpec, Trigger
from ebbtide.scenario.steps.table import HEALERS, KINDS, StepKind
from harness.random.kind import broker_role, waiting_s
from harness.random.table import GENERATORS
from harness.random.world import World

FIRST_ACKED = 200
_HEAL_EARLIER_S = 10.0
"""After an outage of this length, healing steps are drawn twice as often."""


def build_steps(world: World, slots: Iterable[StepSpec | None], random: Random) -> tuple[StepSpec, ...]:
    """Return the valid steps of `slots`, fitted to the state they fall into; None draws a step.

    The schedule begins with a wait until clients are at work, and ends with everything healed. Changes `world`.
    """
    steps = [StepSpec(step="wait", trigger=Trigger(acked=FIRST_ACKED), deadline_s=60.0)]
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
    """Return the steps without the first wait and without the healing steps at the end."""
    slots = [step for step in steps if step.trigger is None or step.trigger.acked is None]
    while slots and slots[-1].step in HEALERS:
        slots.pop()
    return slots


def _append(world: World, steps: list[StepSpec], taken: Iterable[StepSpec]) -> None:
    for step in taken:
        fitted = _fit(world, step)
        assert fitted is not None, f"an invalid {step.step} was about to be added to the schedule"
        lasts_s = waiting_s(fitted) + GENERATORS[fitted.step].apply(world, fitted)
        world.pass_time(lasts_s)
        steps.append(fitted)


def _fit(world: World, step: StepSpec) -> StepSpec | None:
    if step.step in world.without:
        return None
    bare = msgspec.structs.replace(step, name=None) if step.name is not None else step
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
    return KINDS[kind].weight * (2.0 if kind in HEALERS and long_broken else 1.0)


def _healing_steps(world: World) -> list[StepSpec]:
    """Return the steps that heal everything, in order: connections before nodes, volumes before starts."""
    steps = []
    if world.rules:
        steps.append(StepSpec(step="release", optional=True))
    if world.cut or world.slowed:
        steps.append(StepSpec(step="heal"))
    if world.controller != "up":
        kind: StepKind = "resume" if world.controller == "paused" else "start"
        steps.append(StepSpec(step=kind, target=f"step({world.controller_step})"))
    brokers = world.brokers.items()
    steps += [StepSpec(step="resume", target=broker_role(one)) for one, at in brokers if at.process == "paused"]
    steps += [StepSpec(step="mend-disk", target=broker_role(one)) for one, at in brokers if at.sick]
    steps += [StepSpec(step="start", target=broker_role(one)) for one, at in brokers if at.process == "down"]
    return steps
