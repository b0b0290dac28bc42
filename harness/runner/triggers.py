"""Triggers: the conditions that a step waits for.

They read the cluster view and the clients' counters. Each answers whether it has fired and what was
seen, so that a deadline that expires can say both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from ebbtide.kraft.image import describe
from ebbtide.record.rows import PartitionState
from ebbtide.scenario.triggers import (
    AckedTrigger,
    AfterTrigger,
    BrokerTrigger,
    ConfigTrigger,
    DirectoryTrigger,
    ElrTrigger,
    EpochTrigger,
    HeldTrigger,
    IsrTrigger,
    LeaderTrigger,
    OffsetTrigger,
    OfPartitions,
    ReassignedTrigger,
    RecoveryTrigger,
    ReplicasTrigger,
    Trigger,
    trigger_text,
)
from ebbtide.scenario.words import PartitionName
from ebbtide.scenario.write import keys_set
from harness.runner.view import ClusterView


class Counters(Protocol):
    """What triggers ask of the running clients."""

    def acked(self) -> int:
        """Records acked so far, over all producers."""

    def high_watermark(self, topic: str, partition: int) -> int | None:
        """The highest HW sampled so far."""


CountHeld = Callable[[tuple[int, ...], str], int]
"""How many requests or answers of an API are held now at some nodes (`faults.wire.WireFaults.held_count`)."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a trigger has fired, and what it looked at."""

    fired: bool
    what: str


class TriggerWatch:
    """One trigger while its step waits; `after` counts from the making of the watch."""

    def __init__(self, trigger: Trigger, view: ClusterView, counters: Counters, count_held: CountHeld) -> None:
        self._trigger = trigger
        self._view = view
        self._counters = counters
        self._count_held = count_held
        self._since = time.monotonic()

    def look(self) -> Observation:
        """Ask once."""
        trigger = self._trigger
        match trigger:
            case AckedTrigger(records=records):
                acked = self._counters.acked()
                return Observation(fired=acked >= records, what=f"{acked} acked")
            case AfterTrigger():
                passed_s = time.monotonic() - self._since
                return Observation(fired=passed_s >= trigger.seconds, what=f"{passed_s:.1f} s passed")
            case ConfigTrigger(config=config):
                resource = self._view.config_resource(trigger.resource)
                value = self._view.image.configs.get((resource, config))
                seen = "is not set" if value is None else f"= {value}"
                return Observation(fired=value == trigger.value, what=f"{config} of {resource} {seen}")
            case BrokerTrigger(broker=role, state=state):
                events = self._view.image.brokers
                states = {
                    broker: events[broker].event if broker in events else "not registered yet"
                    for broker in self._view.resolve(role)
                }
                told = "; ".join(f"broker {broker} {event.replace('_', ' ')}" for broker, event in states.items())
                return Observation(fired=set(states.values()) == {state}, what=told)
            case HeldTrigger(node=role, api=api, at_least=at_least):
                held = self._count_held(self._view.resolve(role), api)
                return Observation(fired=held >= at_least, what=f"{held} {api} held")
            case OfPartitions():
                looks = [self._look_at_partition(trigger, partition) for partition in trigger.names]
                return Observation(fired=all(look.fired for look in looks), what="; ".join(look.what for look in looks))
        raise AssertionError(f"nobody looks for {trigger.key}")

    def _look_at_partition(self, trigger: OfPartitions, partition: PartitionName) -> Observation:
        if isinstance(trigger, OffsetTrigger):
            high_watermark = self._counters.high_watermark(*partition.at)
            fired = high_watermark is not None and high_watermark >= trigger.offset
            return Observation(fired=fired, what=f"HW {high_watermark} of {partition}")
        if isinstance(trigger, DirectoryTrigger):
            places = {broker: self._view.log_dir(broker, partition.at) for broker in self._view.resolve(trigger.broker)}
            found = ", ".join(f"{place or 'in none, or moving'} on broker {one}" for one, place in places.items())
            return Observation(
                fired=set(places.values()) == {trigger.directory}, what=f"log directory of {partition}: {found}"
            )
        state = self._view.partition(partition.at)
        if state is None:
            return Observation(fired=False, what=f"{partition} does not exist yet")
        return Observation(fired=self._is_met(trigger, state), what=describe(state))

    def _is_met(self, trigger: OfPartitions, state: PartitionState) -> bool:
        match trigger:
            case IsrTrigger(size=size, at_least=at_least):
                return len(state.isr) == size if size is not None else len(state.isr) >= (at_least or 0)
            case EpochTrigger(epoch=epoch):
                return state.leader_epoch > epoch
            case ElrTrigger(broker=role):
                return set(self._view.resolve(role)) <= set(state.elr)
            case ReplicasTrigger(are=roles):
                return set(self._view.resolve_all(roles)) == set(state.replicas)
            case ReassignedTrigger():
                return not state.adding and not state.removing
            case RecoveryTrigger(state=awaited):
                return bool(state.leader_recovery_state) == (awaited == "recovering")
            case LeaderTrigger(broker=broker):
                leads = broker.role is not None and state.leader in self._view.resolve(broker.role)
                return state.leader < 0 if broker.role is None else leads
        raise AssertionError(f"nobody looks for {trigger.key}")


def text_of(trigger: Trigger) -> str:
    """The trigger as a person reads it: `acked 1000`, `isr of t-0: size 1`."""
    return trigger_text(keys_set(trigger))
