"""Generates steps that damage, slow or repair a running broker's volume."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TypeVar

from ebbtide.releases.feature_levels import METADATA_VERSIONS
from ebbtide.releases.first_with import SEVERAL_LOG_DIRS
from ebbtide.releases.known_releases import METADATA_VERSION, version_of
from ebbtide.scenario.steps.admin import MoveReplicaStep
from ebbtide.scenario.steps.disk import DirectoryStep, MendDiskStep
from ebbtide.scenario.steps.step import StepSpec, TargetStep
from ebbtide.scenario.steps.table import DISK_TROUBLES, KINDS, STARTERS, STEP_TYPES, StepKind
from ebbtide.scenario.triggers import after
from ebbtide.scenario.validate_quorum import ASSIGNED_SINCE
from ebbtide.scenario.words import PartitionName, Role
from harness.random.kind import (
    Fit,
    Propose,
    StepGenerator,
    draw_broker,
    draw_delay,
    draw_durations,
    draw_partition,
    step_on,
    with_time_trigger,
)
from harness.random.requests import common_fields, fit_request
from harness.random.world import World

S = TypeVar("S", bound=TargetStep)

_SHARE_OF_ALL = 0.3


def draw_log_dirs(random: Random, kafka: str, features: Mapping[str, int]) -> int | None:
    """Draw how many log directories brokers have; None if the release goes on without none of them."""
    count = random.choice((2, 2, 3))
    level = features.get(METADATA_VERSION)
    is_old = version_of(kafka) < SEVERAL_LOG_DIRS
    return None if is_old or (level is not None and level < METADATA_VERSIONS[ASSIGNED_SINCE]) else count


def draw_directory(kind: StepKind, world: World, random: Random) -> dict[str, int]:
    """Draw the one log directory that a fault hits; nothing if it hits all."""
    can = issubclass(STEP_TYPES[kind], DirectoryStep) and world.log_dirs > 1
    return {"directory": random.randint(1, world.log_dirs)} if can and random.random() > _SHARE_OF_ALL else {}


def fit_directory(world: World, step: S) -> S:
    """Return a step that hits all log directories if brokers do not have the one that it names."""
    if isinstance(step, DirectoryStep) and step.directory is not None:
        return step if world.log_dirs > 1 and step.directory <= world.log_dirs else step.replace(directory=None)
    return step


def _propose_move(world: World, random: Random) -> StepSpec | None:
    if world.log_dirs == 1:
        return None
    name, partition = draw_partition(world, random)
    brokers = [one for one in partition.replicas if _runs(world, one)]
    if not brokers:
        return None
    return MoveReplicaStep(
        **common_fields(random),
        partition=PartitionName(name),
        target=Role.of_broker(random.choice(brokers)),
        directory=random.randint(1, world.log_dirs),
    )


def _runs(world: World, broker: int) -> bool:
    state = world.brokers[broker]
    return state.process == "up" and state.sick in (None, "slow")


def _can_move(world: World, step: MoveReplicaStep) -> bool:
    broker = world.id_of(step.target)
    has = 1 < world.log_dirs >= step.directory and str(step.partition) in world.partitions
    return has and broker in world.brokers and _runs(world, broker)


MOVE_REPLICA = StepGenerator(propose=_propose_move, fit=fit_request(_can_move))


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


def _apply_trouble(world: World, step: TargetStep) -> None:
    number = world.id_of(step.target) or 0
    broker = world.brokers[number]
    broker.sick = step.kind.volume
    if broker.sick == "slow":
        broker.frozen = True
    else:
        world.replication.ended[number] = False
        broker.joined = broker.returning = False


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


def _mend(world: World, step: MendDiskStep) -> None:
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


_FIT: Fit = _fit
VOLUME_KINDS: dict[StepKind, StepGenerator] = {
    **{
        kind: StepGenerator(propose=_propose(kind), fit=_FIT, apply=_apply_trouble)
        for kind in DISK_TROUBLES
        if KINDS[kind].weight
    },
    "mend-disk": StepGenerator(propose=_propose_mend, fit=_fit_mend, apply=_mend),
}
