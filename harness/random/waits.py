"""Generates waits for the state that the steps before probably lead to.

A soft wait is optional: the schedule continues if the state does not come. A hard wait is for a broker that is certain
to be unfenced; later steps on that broker rely on it.
"""

from __future__ import annotations

from random import Random

import msgspec

from analysis.spec.partition import NO_LEADER
from ebbtide.scenario.model import BrokerTrigger, HeldTrigger, IsrTrigger, MemberTrigger, StepSpec, Trigger
from ebbtide.scenario.words import Duration
from harness.random.kind import StepGenerator, broker_role
from harness.random.replication import final_replicas
from harness.random.world import Broker, World

_SOFT_S = 6.0
_HARD_S = 60.0


def _expected_states(world: World) -> list[Trigger]:
    """Return triggers for the states that probably come about."""
    found = []
    for name, partition in sorted(world.partitions.items()):
        if partition.leader == NO_LEADER:
            found.append(Trigger(leader_is=MemberTrigger(partition=name, broker="none")))
        elif partition.leader != partition.replicas[0]:
            role = broker_role(partition.leader)
            found.append(Trigger(leader_is=MemberTrigger(partition=name, broker=role)))
        if len(partition.isr) < len(partition.replicas):
            found.append(Trigger(isr=IsrTrigger(partition=name, size=len(partition.isr))))
        found += [
            Trigger(elr_contains=MemberTrigger(partition=name, broker=broker_role(one)))
            for one in sorted(partition.elr)
        ]
    for broker, state in world.brokers.items():
        if not world.is_alive(broker) and state.process != "unsure":
            found.append(Trigger(broker_is=BrokerTrigger(broker=broker_role(broker), state="fenced")))
    for at, api in world.rules:
        if at in world.brokers and not api.startswith("some "):
            found.append(Trigger(held=HeldTrigger(node=broker_role(at), api=api)))
    return found


def _returning_brokers(world: World) -> list[int]:
    return [one for one, state in world.brokers.items() if _surely_returns(world, state)]


def _surely_returns(world: World, state: Broker) -> bool:
    return state.returning and state.process == "up" and state.sick is None and world.is_calm


def _propose(world: World, random: Random) -> StepSpec | None:
    returning = _returning_brokers(world)
    if returning and random.random() < 0.6:
        return _hard_wait(random.choice(returning))
    expected = _expected_states(world)
    if expected and random.random() < 0.8:
        return _soft_wait(random.choice(expected))
    whole = Trigger(isr=IsrTrigger(partitions=tuple(sorted(world.partitions)), at_least=_full_isr_size(world)))
    if world.is_calm and random.random() < 0.5:
        return _soft_wait(whole)
    return StepSpec(step="wait", trigger=Trigger(after=Duration(random.choice(("500ms", "1s", "2s", "3s")))))


def _full_isr_size(world: World) -> int:
    return min(len(final_replicas(partition)) for partition in world.partitions.values())


def _soft_wait(trigger: Trigger) -> StepSpec:
    return StepSpec(step="wait", trigger=trigger, deadline_s=_SOFT_S, optional=True)


def _hard_wait(broker: int) -> StepSpec:
    unfenced = BrokerTrigger(broker=broker_role(broker), state="unfenced")
    return StepSpec(step="wait", trigger=Trigger(broker_is=unfenced), deadline_s=_HARD_S)


def _fit(world: World, step: StepSpec) -> StepSpec | None:
    trigger = step.trigger
    if trigger is None:
        return None
    if trigger.after is not None:
        return step
    if not _has_all_named(world, trigger):
        return None
    broker = _awaited_broker(world, step)
    if broker is not None and step.optional is None and _surely_returns(world, world.brokers[broker]):
        return _hard_wait(broker)
    return msgspec.structs.replace(step, optional=True, deadline_s=_SOFT_S)


def _has_all_named(world: World, trigger: Trigger) -> bool:
    """Whether every node, partition and wire rule that a trigger names exists."""
    if trigger.held is not None:
        return (world.id_of(trigger.held.node), trigger.held.api) in world.rules
    if trigger.broker_is is not None:
        return world.id_of(trigger.broker_is.broker) in world.brokers
    for asked in (trigger.leader_is, trigger.elr_contains, trigger.isr):
        if asked is None:
            continue
        if isinstance(asked, MemberTrigger) and asked.broker != "none" and world.id_of(asked.broker) is None:
            return False
        return set(asked.asked) <= world.partitions.keys()
    return False


def _awaited_broker(world: World, step: StepSpec) -> int | None:
    """Return the broker that a wait expects to be unfenced, or None."""
    asked = step.trigger.broker_is if step.trigger is not None else None
    return world.id_of(asked.broker) if asked is not None and asked.state == "unfenced" else None


def _apply(world: World, step: StepSpec) -> float:
    broker = _awaited_broker(world, step)
    if broker is not None and step.optional is None:
        world.brokers[broker].joined, world.brokers[broker].returning = True, False
    return 0.0


WAIT = StepGenerator(propose=_propose, fit=_fit, apply=_apply)
