"""Builds valid step lists: draws new steps, fits given ones, and heals at the end whatever is still broken."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import msgspec

from ebbtide.scenario.model import StepSpec, Trigger
from ebbtide.scenario.steps.table import HEALERS, KINDS, StepKind
from harness.random.kind import broker_role, waiting_s
from harness.random.table import DRAWINGS
from harness.random.world import World

FIRST_ACKED = 200
_HEAL_EARLIER_S = 10.0
"""After so long in trouble, healing is drawn as often again as harming."""


def build(world: World, genes: Iterable[StepSpec | None], random: Random) -> tuple[StepSpec, ...]:
    """The steps of `genes` that are valid where they come to stand, fitted; None: one is drawn there.

    Leads with a wait until clients are at work, and ends with everything healed. `world` is used up.
    """
    steps = [StepSpec(step="wait", trigger=Trigger(acked=FIRST_ACKED), deadline_s=60.0)]
    for gene in genes:
        if world.weary:
            _take(world, steps, _healing(world)[:1])
        step = _fitted(world, gene) if gene is not None else _drawn(world, random)
        if step is not None:
            _take(world, steps, [step])
    while healing := _healing(world):
        _take(world, steps, healing[:1])
    return tuple(steps)


def without_frame(steps: Iterable[StepSpec]) -> list[StepSpec]:
    """The steps as genes: without the wait that leads every schedule, and the healing that ends it."""
    genes = [step for step in steps if step.trigger is None or step.trigger.acked is None]
    while genes and genes[-1].step in HEALERS:
        genes.pop()
    return genes


def _take(world: World, steps: list[StepSpec], taken: Iterable[StepSpec]) -> None:
    for step in taken:
        fitted = _fitted(world, step)
        assert fitted is not None, f"a {step.step} that is not valid was about to be taken"
        lasts_s = waiting_s(fitted) + DRAWINGS[fitted.step].apply(world, fitted)
        world.pass_time(lasts_s)
        steps.append(fitted)


def _fitted(world: World, step: StepSpec) -> StepSpec | None:
    if step.step in world.without:
        return None
    bare = msgspec.structs.replace(step, name=None) if step.name is not None else step
    return DRAWINGS[step.step].fit(world, bare)


def _drawn(world: World, random: Random) -> StepSpec | None:
    kinds: list[StepKind] = sorted(DRAWINGS)
    for _ in range(20):
        kind = random.choices(kinds, [_weight(world, one) for one in kinds])[0]
        step = DRAWINGS[kind].propose(world, random)
        fitted = _fitted(world, step) if step is not None else None
        if fitted is not None:
            return fitted
    return None


def _weight(world: World, kind: StepKind) -> float:
    since_s = world.outage_since_s
    long_broken = since_s is not None and world.used_s - since_s > _HEAL_EARLIER_S
    return KINDS[kind].weight * (2.0 if kind in HEALERS and long_broken else 1.0)


def _healing(world: World) -> list[StepSpec]:
    """What would heal everything, in the order in which it can: connections before nodes, volumes before starts."""
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
