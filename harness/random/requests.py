"""Kinds of step that ask Kafka for something. All are optional: Kafka may refuse, or be in no state to answer."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

from ebbtide.scenario.model import StepKind, StepSpec
from harness.random.kind import Apply, Fit, Kind, after_only, broker_role, pause_before, some_partition
from harness.random.world import World

TOPIC = "t"
SPARE_TOPIC = "spare"
"""A topic that no client uses, so that it may be deleted."""
ELR_FEATURE = "eligible.leader.replicas.version"
_DEADLINE_S = 5.0


def _ask(kind: StepKind, random: Random) -> StepSpec:
    return StepSpec(step=kind, trigger=pause_before(random), deadline_s=_DEADLINE_S, optional=True)


def _propose_reassign(world: World, random: Random) -> StepSpec | None:
    name, partition = some_partition(world, random)
    step = msgspec.structs.replace(_ask("reassign", random), partition=name)
    if world.moving and random.random() < 0.4:
        return msgspec.structs.replace(step, cancel=True)
    count = len(partition.replicas) - (random.random() < 0.15 and len(partition.replicas) > 1)
    replicas = random.sample(sorted(world.brokers), min(count, len(world.brokers)))
    return msgspec.structs.replace(step, replicas=tuple(map(broker_role, replicas)))


def _reassign(world: World, step: StepSpec) -> float:
    world.moving = True
    partition = world.partitions[step.partition or ""]
    if step.replicas:
        partition.replicas = sorted(world.ids_of(step.replicas), key=[world.id_of(r) for r in step.replicas].index)
        partition.isr = [one for one in partition.isr if one in partition.replicas]
        partition.elr &= set(partition.replicas)
    return 3.0


def _propose_elect(world: World, random: Random) -> StepSpec | None:
    name, partition = some_partition(world, random)
    unclean = partition.leader is None and random.random() < 0.5
    return msgspec.structs.replace(_ask("elect", random), partition=name, type="unclean" if unclean else "preferred")


def _propose_set_config(world: World, random: Random) -> StepSpec | None:
    step = msgspec.structs.replace(_ask("set-config", random), resource=f"topic:{TOPIC}")
    if random.random() < 0.2:
        value = random.choice(("true", "false"))
        return msgspec.structs.replace(step, config="unclean.leader.election.enable", value=value)
    step = msgspec.structs.replace(step, config="min.insync.replicas")
    if random.random() < 0.2:
        return msgspec.structs.replace(step, delete=True)
    if random.random() < 0.2:
        step = msgspec.structs.replace(step, resource="cluster")
    return msgspec.structs.replace(step, value=str(random.randint(1, 3)))


def _set_config(world: World, step: StepSpec) -> float:
    if step.config == "min.insync.replicas" and step.resource != "cluster":
        world.min_isr = int(step.value or "1")
    if step.config == "min.insync.replicas":
        for partition in world.partitions.values():
            partition.elr.clear()
    return 2.0


def _propose_set_feature(world: World, random: Random) -> StepSpec | None:
    if not world.level_changes:
        return None
    return msgspec.structs.replace(_ask("set-feature", random), feature=ELR_FEATURE, level=int(not world.elr))


def _set_feature(world: World, step: StepSpec) -> float:
    world.elr = bool(step.level)
    return 2.0


def _propose_delete_topic(world: World, random: Random) -> StepSpec | None:
    return msgspec.structs.replace(_ask("delete-topic", random), topic=SPARE_TOPIC) if world.spare_topic else None


def _delete_topic(world: World, step: StepSpec) -> float:
    world.spare_topic = False
    return 2.0


def _propose_unregister(world: World, random: Random) -> StepSpec | None:
    down = _unregistrable(world)
    return (
        msgspec.structs.replace(_ask("unregister", random), target=broker_role(random.choice(down))) if down else None
    )


def _unregistrable(world: World) -> list[int]:
    """Brokers that are down: one that runs would not register again before its next start."""
    return [one for one, state in world.brokers.items() if state.process == "down" and not state.sick]


def _unregister(world: World, step: StepSpec) -> float:
    broker = world.brokers[world.id_of(step.target) or 0]
    broker.fencing = False
    return 2.0


def _fit(allowed: Callable[[World, StepSpec], bool]) -> Fit:
    def fit(world: World, step: StepSpec) -> StepSpec | None:
        if not allowed(world, step):
            return None
        return msgspec.structs.replace(after_only(step), deadline_s=_DEADLINE_S, optional=True)

    return fit


def _known(world: World, step: StepSpec) -> bool:
    replicas = world.ids_of(step.replicas)
    return step.partition in world.partitions and len(replicas) == len(step.replicas)


def _any(_world: World, _step: StepSpec) -> bool:
    return True


def _nothing(_world: World, _step: StepSpec) -> float:
    return 2.0


_APPLY_ELECT: Apply = _nothing
REQUEST_KINDS: dict[StepKind, Kind] = {
    "reassign": Kind(weight=0.8, propose=_propose_reassign, fit=_fit(_known), apply=_reassign),
    "elect": Kind(weight=0.6, propose=_propose_elect, fit=_fit(_known), apply=_APPLY_ELECT),
    "set-config": Kind(weight=0.8, propose=_propose_set_config, fit=_fit(_any), apply=_set_config),
    "set-feature": Kind(
        weight=0.3,
        propose=_propose_set_feature,
        fit=_fit(lambda world, step: world.level_changes and step.level == int(not world.elr)),
        apply=_set_feature,
    ),
    "delete-topic": Kind(
        weight=0.1,
        propose=_propose_delete_topic,
        fit=_fit(lambda world, _step: world.spare_topic),
        apply=_delete_topic,
    ),
    "unregister": Kind(
        weight=0.3,
        propose=_propose_unregister,
        fit=_fit(lambda world, step: world.id_of(step.target) in _unregistrable(world)),
        apply=_unregister,
    ),
}
