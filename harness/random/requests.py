"""Generates steps that send an admin request to Kafka.

All are optional: Kafka may refuse the request or be unable to answer.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, TypedDict

from analysis.spec.partition import NO_LEADER, Election, UncleanElection
from ebbtide.releases.known_releases import ELR_VERSION
from ebbtide.scenario.steps.admin import (
    AddPartitionsStep,
    CreateTopicStep,
    DeleteRecordsStep,
    DeleteTopicStep,
    ElectStep,
    ReassignStep,
    SetConfigStep,
    SetFeatureStep,
    UnregisterStep,
)
from ebbtide.scenario.steps.recovery import RecoverStep
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.steps.table import StepKind
from ebbtide.scenario.triggers import Trigger
from ebbtide.scenario.words import ConfigResource, Duration, PartitionName, Role
from harness.random.kind import Fit, StepGenerator, draw_delay, draw_partition, with_time_trigger
from harness.random.replication import final_replicas
from harness.random.world import World

TOPIC = "t"
SPARE_TOPIC = "spare"
"""A topic that no client uses, so that a step can delete it."""
_DEADLINE_S = 5.0
_BEFORE = 50
"""An offset that each partition has when the first drawn step fires."""


class CommonFields(TypedDict):
    """The fields of every request."""

    trigger: Trigger | None
    deadline_s: float
    optional: bool


def common_fields(random: Random) -> CommonFields:
    """Draw the fields of a request."""
    return {"trigger": draw_delay(random), "deadline_s": _DEADLINE_S, "optional": True}


def _propose_reassign(world: World, random: Random) -> StepSpec | None:
    name, partition = draw_partition(world, random)
    step = ReassignStep(**common_fields(random), partition=PartitionName(name))
    if world.moving and random.random() < 0.4:
        return step.replace(cancel=True)
    count = len(final_replicas(partition))
    count -= random.random() < 0.15 and count > 1
    replicas = random.sample(sorted(world.brokers), min(count, len(world.brokers)))
    return step.replace(replicas=tuple(map(Role.of_broker, replicas)))


def _reassign(world: World, step: ReassignStep) -> None:
    world.moving = True
    protocol, name = world.replication.protocol, str(step.partition)
    if step.replicas:
        target = tuple(one for role in step.replicas if (one := world.id_of(role)) is not None)
        world.replication.apply_to(name, lambda partition, cluster: protocol.reassign(partition, cluster, target))
    else:
        world.replication.apply_to(name, protocol.cancel_reassignment)


def _propose_elect(world: World, random: Random) -> StepSpec | None:
    name, partition = draw_partition(world, random)
    unclean = partition.leader == NO_LEADER and random.random() < 0.5
    common = common_fields(random)
    return ElectStep(**common, partition=PartitionName(name), type="unclean" if unclean else "preferred")


def _propose_recover(world: World, random: Random) -> StepSpec | None:
    leaderless = [name for name, one in sorted(world.partitions.items()) if one.leader == NO_LEADER]
    if not leaderless:
        return None
    return RecoverStep(
        **common_fields(random),
        partition=PartitionName(random.choice(leaderless)),
        strategy=random.choice(("balanced", "proactive", "proactive", "manual")),
        timeout=Duration("2s"),
    )


def _recover(world: World, step: RecoverStep) -> None:
    """Elect as an unclean election does: the model of a random schedule has no logs to compare."""
    protocol = world.replication.protocol
    if step.strategy == "proactive":
        world.replication.apply_to(
            str(step.partition), lambda partition, cluster: protocol.elect(partition, cluster, Election.UNCLEAN)
        )


def _propose_set_config(world: World, random: Random) -> StepSpec | None:
    common = common_fields(random)
    topic = ConfigResource(f"topic:{TOPIC}")
    if random.random() < 0.2:
        value = random.choice(("true", "false"))
        return SetConfigStep(**common, resource=topic, config="unclean.leader.election.enable", value=value)
    step = SetConfigStep(**common, resource=topic, config="min.insync.replicas")
    if random.random() < 0.2:
        return step.replace(delete=True)
    if random.random() < 0.2:
        step = step.replace(resource=ConfigResource("cluster"))
    return step.replace(value=str(random.randint(1, 3)))


def _set_config(world: World, step: SetConfigStep) -> None:
    protocol = world.replication.protocol
    if step.config == "min.insync.replicas":
        value, topic = int(step.value or "1"), step.resource.topic is not None
        world.replication.apply_to_all(
            lambda partition, cluster: protocol.set_min_isr(partition, cluster, value, topic=topic)
        )
    else:
        choice = UncleanElection(step.value == "true")
        world.replication.apply_to_all(lambda partition, cluster: protocol.set_unclean(partition, cluster, choice))


def _propose_set_feature(world: World, random: Random) -> StepSpec | None:
    if not world.replication.protocol.has_elr:
        return None
    return SetFeatureStep(**common_fields(random), feature=ELR_VERSION, level=int(not world.replication.cluster.elr))


def _set_feature(world: World, step: SetFeatureStep) -> None:
    protocol, on = world.replication.protocol, bool(step.level)
    world.replication.apply_to_all(lambda partition, cluster: protocol.set_elr_feature(partition, cluster, on))


def _propose_delete_topic(world: World, random: Random) -> StepSpec | None:
    return DeleteTopicStep(**common_fields(random), topic=SPARE_TOPIC) if world.spare_topic else None


def _delete_topic(world: World, _step: DeleteTopicStep) -> None:
    world.spare_topic = False


def _propose_create_topic(world: World, random: Random) -> StepSpec | None:
    return None if world.spare_topic else CreateTopicStep(**common_fields(random), topic=SPARE_TOPIC)


def _create_topic(world: World, _step: CreateTopicStep) -> None:
    world.spare_topic = True


def _propose_add_partitions(world: World, random: Random) -> StepSpec | None:
    if world.has_added_partitions:
        return None
    return AddPartitionsStep(**common_fields(random), topic=TOPIC, count=len(world.partitions) + random.choice((1, 2)))


def _add_partitions(world: World, _step: AddPartitionsStep) -> None:
    world.has_added_partitions = True


def _propose_delete_records(world: World, random: Random) -> StepSpec | None:
    never_moved = [name for name in sorted(world.partitions) if _has_first_leader(world, PartitionName(name))]
    if not never_moved:
        return None
    before = random.choice((None, _BEFORE))
    common = common_fields(random)
    name = random.choice(never_moved)
    # A second request up to there, or one after all were deleted, would delete nothing.
    before = None if name in world.deleted_from else before
    return DeleteRecordsStep(**common, partition=PartitionName(name), before=before)


def _can_delete_records(world: World, step: DeleteRecordsStep) -> bool:
    is_first = step.before is None or str(step.partition) not in world.deleted_from
    return is_first and _has_first_leader(world, step.partition)


def _delete_records(world: World, step: DeleteRecordsStep) -> None:
    world.deleted_from.add(str(step.partition))


def _has_first_leader(world: World, partition: PartitionName) -> bool:
    """Whether no other leader led before.

    After an election nobody knows whether a deleted record still stood, so that the run would be inconclusive.
    """
    state = world.partitions.get(str(partition))
    return state is not None and state.leader_epoch == 0 and world.is_calm


def _propose_unregister(world: World, random: Random) -> StepSpec | None:
    down = _unregistrable_brokers(world)
    return UnregisterStep(**common_fields(random), target=Role.of_broker(random.choice(down))) if down else None


def _unregistrable_brokers(world: World) -> list[int]:
    """Return the brokers that are down, which may be unregistered.

    A running broker would not register again before its next start.
    """
    return [one for one, state in world.brokers.items() if state.process == "down" and not state.sick]


def _unregister(world: World, step: UnregisterStep) -> None:
    broker, protocol = world.id_of(step.target) or 0, world.replication.protocol
    world.brokers[broker].fencing = False
    world.replication.apply_to_all(lambda partition, cluster: protocol.unregister(partition, cluster, broker))


def fit_request(allowed: Callable[[World, Any], bool], deadline_s: float = _DEADLINE_S) -> Fit:
    """Return what fits a request that is allowed: it is optional, and its trigger is a time."""

    def fit(world: World, step: StepSpec) -> StepSpec | None:
        if not allowed(world, step):
            return None
        return with_time_trigger(step).replace(deadline_s=deadline_s, optional=True)

    return fit


def _has_known_replicas(world: World, step: ReassignStep | ElectStep | RecoverStep) -> bool:
    roles = step.replicas if isinstance(step, ReassignStep) else ()
    return str(step.partition) in world.partitions and len(world.ids_of(roles)) == len(roles)


def _switches_elr(world: World, step: SetFeatureStep) -> bool:
    return world.replication.protocol.has_elr and step.level == int(not world.replication.cluster.elr)


def _elect(world: World, step: ElectStep) -> None:
    protocol = world.replication.protocol
    election = Election.UNCLEAN if step.type == "unclean" else Election.PREFERRED
    world.replication.apply_to(
        str(step.partition), lambda partition, cluster: protocol.elect(partition, cluster, election)
    )


REQUEST_KINDS: dict[StepKind, StepGenerator] = {
    "reassign": StepGenerator(propose=_propose_reassign, fit=fit_request(_has_known_replicas), apply=_reassign),
    "elect": StepGenerator(propose=_propose_elect, fit=fit_request(_has_known_replicas), apply=_elect),
    "recover": StepGenerator(propose=_propose_recover, fit=fit_request(_has_known_replicas), apply=_recover),
    "set-config": StepGenerator(
        propose=_propose_set_config, fit=fit_request(lambda _world, _step: True), apply=_set_config
    ),
    "set-feature": StepGenerator(
        propose=_propose_set_feature,
        fit=fit_request(_switches_elr),
        apply=_set_feature,
    ),
    "delete-topic": StepGenerator(
        propose=_propose_delete_topic,
        fit=fit_request(lambda world, _step: world.spare_topic),
        apply=_delete_topic,
    ),
    "create-topic": StepGenerator(
        propose=_propose_create_topic,
        fit=fit_request(lambda world, _step: not world.spare_topic),
        apply=_create_topic,
    ),
    "add-partitions": StepGenerator(
        propose=_propose_add_partitions,
        fit=fit_request(lambda world, step: not world.has_added_partitions and step.count > len(world.partitions)),
        apply=_add_partitions,
    ),
    "delete-records": StepGenerator(
        propose=_propose_delete_records,
        fit=fit_request(_can_delete_records),
        apply=_delete_records,
    ),
    "unregister": StepGenerator(
        propose=_propose_unregister,
        fit=fit_request(lambda world, step: world.id_of(step.target) in _unregistrable_brokers(world)),
        apply=_unregister,
    ),
}
