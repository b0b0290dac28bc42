"""Draws log directories: how many brokers have, which one a fault hits, and where a replica moves (KIP-858)."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TypeVar

from packaging.version import Version

from ebbtide.releases.feature_levels import METADATA_VERSIONS
from ebbtide.releases.first_with import SEVERAL_LOG_DIRS
from ebbtide.releases.known_releases import METADATA_VERSION, parse_version
from ebbtide.scenario.roles import Role
from ebbtide.scenario.steps.admin import MoveReplicaStep
from ebbtide.scenario.steps.disk import DirectoryStep
from ebbtide.scenario.steps.step import StepSpec, TargetStep
from ebbtide.scenario.steps.table import STEP_TYPES, StepKind
from ebbtide.scenario.validate_directories import ASSIGNED_SINCE
from ebbtide.scenario.words import PartitionName
from harness.random.kind import StepGenerator, draw_partition
from harness.random.requests import common_fields, fit_request
from harness.random.world import World

S = TypeVar("S", bound=TargetStep)

_SHARE_OF_ALL = 0.3


def draw_log_dirs(random: Random, kafka: str, features: Mapping[str, int]) -> int | None:
    """Draw how many log directories brokers have; None if the release goes on without none of them."""
    count = random.choice((2, 2, 3))
    level = features.get(METADATA_VERSION)
    is_old = Version(str(parse_version(kafka))) < SEVERAL_LOG_DIRS
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


def _move(_world: World, _step: MoveReplicaStep) -> float:
    return 2.0


MOVE_REPLICA = StepGenerator(propose=_propose_move, fit=fit_request(_can_move), apply=_move)
