"""Triggers: what a step waits for, asked of the cluster view and the clients' counters.

Each answers whether it has fired and what was seen, so that a deadline that expires can say both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from ebbtide.kraft.image import describe
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.rows import PartitionState
from ebbtide.scenario.model import OfPartitions, Trigger
from ebbtide.scenario.roles import parse_role
from ebbtide.scenario.write import given
from harness.runner.view import ClusterView


class Counters(Protocol):
    """What triggers ask of the running clients."""

    def acked(self) -> int:
        """Records acked so far, over all producers."""

    def high_watermark(self, topic: str, partition: int) -> int | None:
        """The highest HW sampled so far."""


Held = Callable[[tuple[int, ...], str], int]
"""How many requests or answers of an API are held now at some nodes (`faults.wire.WireFaults.held`)."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a trigger has fired, and what it looked at."""

    fired: bool
    what: str


class Watch:
    """One trigger while its step waits; `after` counts from the making of the watch."""

    def __init__(self, trigger: Trigger, view: ClusterView, counters: Counters, held: Held) -> None:
        self._trigger = trigger
        self._view = view
        self._counters = counters
        self._held = held
        self._since = time.monotonic()

    def look(self) -> Seen:
        """Ask once."""
        trigger = self._trigger
        if trigger.acked is not None:
            acked = self._counters.acked()
            return Seen(fired=acked >= trigger.acked, what=f"{acked} acked")
        if trigger.after is not None:
            passed_s = time.monotonic() - self._since
            return Seen(fired=passed_s >= trigger.after.seconds, what=f"{passed_s:.1f} s passed")
        if trigger.config_is is not None:
            resource = self._view.config_resource(trigger.config_is.resource)
            value = self._view.image.configs.get((resource, trigger.config_is.config))
            seen = "is not set" if value is None else f"= {value}"
            return Seen(fired=value == trigger.config_is.value, what=f"{trigger.config_is.config} of {resource} {seen}")
        if trigger.broker_is is not None:
            events = self._view.image.brokers
            states = {
                broker: events[broker].event if broker in events else "not registered yet"
                for broker in self._view.resolve(parse_role(trigger.broker_is.broker))
            }
            told = "; ".join(f"broker {broker} {state}" for broker, state in states.items())
            return Seen(fired=set(states.values()) == {trigger.broker_is.state}, what=told)
        if trigger.held is not None:
            held = self._held(self._view.resolve(parse_role(trigger.held.node)), trigger.held.api)
            return Seen(fired=held >= trigger.held.at_least, what=f"{held} {trigger.held.api} held")
        looks = [self._look_at_partition(trigger, partition) for partition in _on(trigger).asked]
        return Seen(fired=all(look.fired for look in looks), what="; ".join(look.what for look in looks))

    def _look_at_partition(self, trigger: Trigger, partition: str) -> Seen:
        if trigger.hw_at_least is not None:
            high_watermark = self._counters.high_watermark(*TopicPartition.parse(partition))
            fired = high_watermark is not None and high_watermark >= trigger.hw_at_least.offset
            return Seen(fired=fired, what=f"HW {high_watermark} of {partition}")
        state = self._view.partition(partition)
        if state is None:
            return Seen(fired=False, what=f"{partition} does not exist yet")
        return Seen(fired=self._holds(trigger, state), what=describe(state))

    def _holds(self, trigger: Trigger, state: PartitionState) -> bool:
        if trigger.isr is not None:
            size = len(state.isr)
            return size == trigger.isr.size if trigger.isr.size is not None else size >= (trigger.isr.at_least or 0)
        if trigger.epoch_above is not None:
            return state.leader_epoch > trigger.epoch_above.epoch
        if trigger.elr_contains is not None:
            return set(self._view.resolve(parse_role(trigger.elr_contains.broker))) <= set(state.elr)
        if trigger.replicas is not None:
            return set(self._view.resolve_all(trigger.replicas.are)) == set(state.replicas)
        if trigger.reassigned is not None:
            return not state.adding and not state.removing
        if trigger.recovery_state is not None:
            return bool(state.leader_recovery_state) == (trigger.recovery_state.state == "recovering")
        assert trigger.leader_is is not None, "validation lets no trigger through that asks nothing"
        if trigger.leader_is.broker == "none":
            return state.leader < 0
        return state.leader in self._view.resolve(parse_role(trigger.leader_is.broker))


def _on(trigger: Trigger) -> OfPartitions:
    asked = [
        part
        for field in msgspec.structs.fields(trigger)
        if isinstance(part := getattr(trigger, field.name), OfPartitions)
    ]
    assert len(asked) == 1, "validation lets no trigger through that asks nothing, or two things"
    return asked[0]


def text_of(trigger: Trigger) -> str:
    """The trigger as a person reads it: `acked 1000`, `isr of t-0: size 1`."""
    ((key, value),) = given(trigger).items()
    if not isinstance(value, dict):
        return f"{key} {value}"
    of = [value["partition"]] if "partition" in value else value.get("partitions", [])
    words = {name: one for name, one in value.items() if name not in ("partition", "partitions")}
    rest = ", ".join(f"{name} {', '.join(one) if isinstance(one, list) else one}" for name, one in words.items())
    return f"{key} of {', '.join(of)}{': ' if rest else ''}{rest}" if of else f"{key}: {rest}"
