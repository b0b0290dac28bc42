"""Generates steps that damage, slow or repair a running broker's volume."""

from __future__ import annotations

from random import Random

from ebbtide.scenario.roles import Role
from ebbtide.scenario.steps.disk import MendDiskStep
from ebbtide.scenario.steps.step import StepSpec, TargetStep
from ebbtide.scenario.steps.table import DISK_TROUBLES, KINDS, STARTERS, StepKind
from ebbtide.scenario.triggers import after
from harness.random.directories import draw_directory, fit_directory
from harness.random.kind import (
    Fit,
    Propose,
    StepGenerator,
    draw_broker,
    draw_delay,
    draw_durations,
    step_on,
    with_time_trigger,
)
from harness.random.world import World


def _healthy_brokers(world: World) -> list[int]:
    return [one for one, state in world.brokers.items() if state.process == "up" and not state.sick]


def _propose(kind: StepKind) -> Propose:
    def propose(world: World, random: Random) -> StepSpec | None:
        broker = draw_broker(world, random, _healthy_brokers(world))
        if broker is None:
            return None
        trigger = draw_delay(random)
        directory = draw_directory(kind, world, random)
        return step_on(kind, Role.of_broker(broker), trigger, **directory, **draw_durations(kind, random))

    return propose


def _fit(world: World, step: TargetStep) -> StepSpec | None:
    """Return the step; None if its repair needs a start and starts are excluded."""
    needs_start = step.kind.volume == "dead" or (step.kind.volume == "full" and world.log_dirs > 1)
    healable = not needs_start or STARTERS.isdisjoint(world.without)
    if not healable or world.id_of(step.target) not in _healthy_brokers(world):
        return None
    return fit_directory(world, with_time_trigger(step))


def _apply_trouble(world: World, step: TargetStep) -> float:
    number = world.id_of(step.target) or 0
    broker = world.brokers[number]
    broker.sick = step.kind.volume
    if broker.sick == "slow":
        broker.frozen = True
    else:
        world.replication.ended[number] = False
        broker.joined = broker.returning = False
    return 1.0


def _sick_brokers(world: World) -> list[int]:
    return [one for one, state in world.brokers.items() if state.sick]


def _propose_mend(world: World, random: Random) -> StepSpec | None:
    sick = _sick_brokers(world)
    if not sick:
        return None
    return MendDiskStep(target=Role.of_broker(random.choice(sick)), trigger=after("3s"))


def _fit_mend(world: World, step: MendDiskStep) -> StepSpec | None:
    """Return the repair of a volume after a wait of 3 s.

    A broker that is about to end must end before its volume is repaired.
    """
    if world.id_of(step.target) not in _sick_brokers(world):
        return None
    return step.replace(trigger=after("3s"), deadline_s=30.0)


def _mend(world: World, step: MendDiskStep) -> float:
    """Repair a volume, and update the state of its broker.

    After a dead volume the broker is down. After a full volume its state is not known, unless the repair ends a broker
    that may go on without one of several log directories.
    """
    broker = world.brokers[world.id_of(step.target) or 0]
    if broker.sick == "full":
        broker.process = "unsure" if world.log_dirs == 1 else "down"
    elif broker.sick == "dead":
        broker.process = "down"
    broker.sick = None
    return 1.0


_FIT: Fit = _fit
VOLUME_KINDS: dict[StepKind, StepGenerator] = {
    **{
        kind: StepGenerator(propose=_propose(kind), fit=_FIT, apply=_apply_trouble)
        for kind in DISK_TROUBLES
        if KINDS[kind].weight
    },
    "mend-disk": StepGenerator(propose=_propose_mend, fit=_fit_mend, apply=_mend),
}
