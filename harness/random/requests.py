"""Kinds of step that ask Kafka for something. All are optional: Kafka may refuse, or be in no state to answer."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

from analysis.spec.partition import NO_LEADER, Election, UncleanElection
from ebbtide.releases.feature_levels import ELR_VERSION
from ebbtide.scenario.model import StepSpec
from ebbtide.scenario.steps.table import StepKind
from harness.random.kind import DrawnKind, Fit, after_only, broker_role, pause_before, some_partition
from harness.random.replication import final_replicas
from harness.random.world import World

TOPIC = "t"
SPARE_TOPIC = "spare"
"""A topic that no client uses, so that it may be deleted."""
_DEADLINE_S = 5.0


def _ask(kind: StepKind, random: Random) -> StepSpec:
    return StepSpec(step=kind, trigger=pause_before(random), deadline_s=_DEADLINE_S, optional=True)


def _propose_reassign(world: World, random: Random) -> StepSpec | None:
    name, partition = some_partition(world, random)
    step = msgspec.structs.replace(_ask("reassign", random), partition=name)
    if world.moving and random.random() < 0.4:
        return msgspec.structs.replace(step, cancel=True)
    count = len(final_replicas(partition))
    count -= random.random() < 0.15 and count > 1
    replicas = random.sample(sorted(world.brokers), min(count, len(world.brokers)))
    return msgspec.structs.replace(step, replicas=tuple(map(broker_role, replicas)))


def _reassign(world: World, step: StepSpec) -> float:
    world.moving = True
    protocol, name = world.replication.protocol, step.partition or ""
    if step.replicas:
        target = tuple(one for role in step.replicas if (one := world.id_of(role)) is not None)
        world.replication.at(name, lambda partition, cluster: protocol.reassign(partition, cluster, target))
    else:
        world.replication.at(name, protocol.cancel_reassignment)
    return 3.0


def _propose_elect(world: World, random: Random) -> StepSpec | None:
    name, partition = some_partition(world, random)
    unclean = partition.leader == NO_LEADER and random.random() < 0.5
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
    protocol = world.replication.protocol
    if step.config == "min.insync.replicas":
        value, topic = int(step.value or "1"), step.resource != "cluster"
        world.replication.everywhere(
            lambda partition, cluster: protocol.set_min_isr(partition, cluster, value, topic=topic)
        )
    else:
        choice = UncleanElection(step.value == "true")
        world.replication.everywhere(lambda partition, cluster: protocol.set_unclean(partition, cluster, choice))
    return 2.0


def _propose_set_feature(world: World, random: Random) -> StepSpec | None:
    if not world.replication.protocol.has_elr:
        return None
    return msgspec.structs.replace(
        _ask("set-feature", random), feature=ELR_VERSION, level=int(not world.replication.cluster.elr)
    )


def _set_feature(world: World, step: StepSpec) -> float:
    protocol, on = world.replication.protocol, bool(step.level)
    world.replication.everywhere(lambda partition, cluster: protocol.set_elr_feature(partition, cluster, on))
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
    broker, protocol = world.id_of(step.target) or 0, world.replication.protocol
    world.brokers[broker].fencing = False
    world.replication.everywhere(lambda partition, cluster: protocol.unregister(partition, cluster, broker))
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


def _switches_elr(world: World, step: StepSpec) -> bool:
    return world.replication.protocol.has_elr and step.level == int(not world.replication.cluster.elr)


def _any(_world: World, _step: StepSpec) -> bool:
    return True


def _elect(world: World, step: StepSpec) -> float:
    protocol = world.replication.protocol
    election = Election.UNCLEAN if step.type == "unclean" else Election.PREFERRED
    world.replication.at(step.partition or "", lambda partition, cluster: protocol.elect(partition, cluster, election))
    return 2.0


REQUEST_KINDS: dict[StepKind, DrawnKind] = {
    "reassign": DrawnKind(propose=_propose_reassign, fit=_fit(_known), apply=_reassign),
    "elect": DrawnKind(propose=_propose_elect, fit=_fit(_known), apply=_elect),
    "set-config": DrawnKind(propose=_propose_set_config, fit=_fit(_any), apply=_set_config),
    "set-feature": DrawnKind(
        propose=_propose_set_feature,
        fit=_fit(_switches_elr),
        apply=_set_feature,
    ),
    "delete-topic": DrawnKind(
        propose=_propose_delete_topic,
        fit=_fit(lambda world, _step: world.spare_topic),
        apply=_delete_topic,
    ),
    "unregister": DrawnKind(
        propose=_propose_unregister,
        fit=_fit(lambda world, step: world.id_of(step.target) in _unregistrable(world)),
        apply=_unregister,
    ),
}
