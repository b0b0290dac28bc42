"""Generates waits for the state that the steps before probably lead to.

A soft wait is optional: the schedule continues if the state does not come. A hard wait is for a broker that is certain
to be unfenced; later steps on that broker rely on it.
"""

from __future__ import annotations

from random import Random

from analysis.spec.partition import NO_LEADER
from ebbtide.scenario.steps.step import StepSpec, WaitStep
from ebbtide.scenario.triggers import (
    AfterTrigger,
    BrokerTrigger,
    ElrTrigger,
    HeldTrigger,
    IsrTrigger,
    LeaderTrigger,
    Trigger,
    after,
)
from ebbtide.scenario.words import PartitionName, Role, RoleOrNone
from harness.random.kind import StepGenerator
from harness.random.replication import final_replicas
from harness.random.world import Broker, World

_SOFT_S = 6.0
_HARD_S = 60.0


def _expected_states(world: World) -> list[Trigger]:
    """Return triggers for the states that probably come about."""
    found: list[Trigger] = []
    for text, partition in sorted(world.partitions.items()):
        name = PartitionName(text)
        if partition.leader == NO_LEADER:
            found.append(LeaderTrigger(partition=name, broker=RoleOrNone("none")))
        elif partition.leader != partition.replicas[0]:
            found.append(LeaderTrigger(partition=name, broker=RoleOrNone(f"broker({partition.leader})")))
        if len(partition.isr) < len(partition.replicas):
            found.append(IsrTrigger(partition=name, size=len(partition.isr)))
        found += [ElrTrigger(partition=name, broker=Role.of_broker(one)) for one in sorted(partition.elr)]
    for broker, state in world.brokers.items():
        if not world.is_alive(broker) and state.process != "unsure":
            found.append(BrokerTrigger(broker=Role.of_broker(broker), state="fenced"))
    for at, api in world.rules:
        if at in world.brokers and not api.startswith("some "):
            found.append(HeldTrigger(node=Role.of_broker(at), api=api))
    return found


def _surely_returns(world: World, state: Broker) -> bool:
    return state.returning and state.process == "up" and state.sick is None and world.is_calm


def _propose(world: World, random: Random) -> StepSpec | None:
    returning = [broker for broker, state in world.brokers.items() if _surely_returns(world, state)]
    if returning and random.random() < 0.6:
        return _hard_wait(random.choice(returning))
    expected = _expected_states(world)
    if expected and random.random() < 0.8:
        return _soft_wait(random.choice(expected))
    names = tuple(map(PartitionName, sorted(world.partitions)))
    full_size = min(len(final_replicas(partition)) for partition in world.partitions.values())
    whole = IsrTrigger(partitions=names, at_least=full_size)
    if world.is_calm and random.random() < 0.5:
        return _soft_wait(whole)
    return WaitStep(trigger=after(random.choice(("500ms", "1s", "2s", "3s"))))


def _soft_wait(trigger: Trigger) -> StepSpec:
    return WaitStep(trigger=trigger, deadline_s=_SOFT_S, optional=True)


def _hard_wait(broker: int) -> StepSpec:
    return WaitStep(trigger=BrokerTrigger(broker=Role.of_broker(broker), state="unfenced"), deadline_s=_HARD_S)


def _fit(world: World, step: WaitStep) -> StepSpec | None:
    trigger = step.trigger
    if isinstance(trigger, AfterTrigger):
        return step
    if not _has_all_named(world, trigger):
        return None
    broker = _awaited_broker(world, step)
    if broker is not None and step.optional is None and _surely_returns(world, world.brokers[broker]):
        return _hard_wait(broker)
    return step.replace(optional=True, deadline_s=_SOFT_S)


def _has_all_named(world: World, trigger: Trigger) -> bool:
    """Whether every node, partition and wire rule that a trigger names exists."""
    match trigger:
        case HeldTrigger(node=role, api=api):
            return (world.id_of(role), api) in world.rules
        case BrokerTrigger(broker=role):
            return world.id_of(role) in world.brokers
        case LeaderTrigger(broker=broker) if broker.role is not None and world.id_of(broker.role) is None:
            return False
        case ElrTrigger(broker=role) if world.id_of(role) is None:
            return False
        case LeaderTrigger() | ElrTrigger() | IsrTrigger():
            return {str(name) for name in trigger.names} <= world.partitions.keys()
    return False


def _awaited_broker(world: World, step: WaitStep) -> int | None:
    """Return the broker that a wait expects to be unfenced, or None."""
    awaited = step.trigger
    return world.id_of(awaited.broker) if isinstance(awaited, BrokerTrigger) and awaited.state == "unfenced" else None


def _apply(world: World, step: WaitStep) -> None:
    broker = _awaited_broker(world, step)
    if broker is not None and step.optional is None:
        world.brokers[broker].joined, world.brokers[broker].returning = True, False


WAIT = StepGenerator(propose=_propose, fit=_fit, apply=_apply)
