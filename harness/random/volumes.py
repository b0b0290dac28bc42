"""Kinds of step that trouble a running broker's volume, and the one that mends it."""

from __future__ import annotations

from random import Random

import msgspec

from ebbtide.scenario.model import StepSpec, Trigger
from ebbtide.scenario.steps.table import DISK_TROUBLES, KINDS, StepKind
from ebbtide.scenario.words import Duration
from harness.random.kind import DrawnKind, Fit, Propose, after_only, broker_role, drawn_keys, pause_before, some_broker
from harness.random.world import World


def _sound(world: World) -> list[int]:
    return [one for one, state in world.brokers.items() if state.process == "up" and not state.sick]


def _propose(kind: StepKind) -> Propose:
    def propose(world: World, random: Random) -> StepSpec | None:
        broker = some_broker(world, random, _sound(world))
        if broker is None:
            return None
        step = StepSpec(step=kind, target=broker_role(broker), trigger=pause_before(random))
        return msgspec.structs.replace(step, **drawn_keys(kind, random))

    return propose


def _fit(world: World, step: StepSpec) -> StepSpec | None:
    """What needs a start once it is mended is no step where nothing is to be started."""
    healable = KINDS[step.step].volume != "dead" or "start" not in world.without
    return after_only(step) if healable and world.id_of(step.target) in _sound(world) else None


def _trouble(world: World, step: StepSpec) -> float:
    number = world.id_of(step.target) or 0
    broker = world.brokers[number]
    broker.sick = KINDS[step.step].volume
    if broker.sick != "slow":
        world.replication.ended[number] = False
        broker.joined = broker.returning = False
    return 1.0


def _sick(world: World) -> list[int]:
    return [one for one, state in world.brokers.items() if state.sick]


def _propose_mend(world: World, random: Random) -> StepSpec | None:
    sick = _sick(world)
    if not sick:
        return None
    return StepSpec(step="mend-disk", target=broker_role(random.choice(sick)), trigger=Trigger(after=Duration("3s")))


def _fit_mend(world: World, step: StepSpec) -> StepSpec | None:
    """Not too soon: a broker that is about to end of it would end after it, and nobody would know why."""
    if world.id_of(step.target) not in _sick(world):
        return None
    return msgspec.structs.replace(step, trigger=Trigger(after=Duration("3s")), deadline_s=30.0)


def _mend(world: World, step: StepSpec) -> float:
    """A node on a volume that died is taken down to mend it; what became of one whose volume was full is not known."""
    broker = world.brokers[world.id_of(step.target) or 0]
    if broker.sick == "full":
        broker.process = "unsure"
    elif broker.sick == "dead":
        broker.process = "down"
    broker.sick = None
    return 1.0


_FIT: Fit = _fit
VOLUME_KINDS: dict[StepKind, DrawnKind] = {
    **{
        kind: DrawnKind(propose=_propose(kind), fit=_FIT, apply=_trouble)
        for kind in DISK_TROUBLES
        if KINDS[kind].weight
    },
    "mend-disk": DrawnKind(propose=_propose_mend, fit=_fit_mend, apply=_mend),
}
