"""Triggers: what a step waits for, asked of the cluster view and the clients' counters.

Each answers whether it has fired and what was seen, so that a deadline that expires can say both.
"""

from __future__ import annotations

import time
from typing import Protocol

import msgspec

from analysis.evidence.segments import TopicPartition
from harness.runner.view import ClusterView, describe
from harness.scenario.model import Trigger
from harness.scenario.roles import parse_role
from harness.scenario.words import duration_s
from harness.scenario.write import given


class Counters(Protocol):
    """What triggers ask of the running clients."""

    def acked(self) -> int:
        """Records acked so far, over all producers."""

    def high_watermark(self, topic: str, partition: int) -> int | None:
        """The highest HW sampled so far."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a trigger has fired, and what it looked at."""

    fired: bool
    what: str


class Watch:
    """One trigger while its step waits; `after` counts from the making of the watch."""

    def __init__(self, trigger: Trigger, view: ClusterView, counters: Counters) -> None:
        self._trigger = trigger
        self._view = view
        self._counters = counters
        self._since = time.monotonic()

    def look(self) -> Seen:
        """Ask once."""
        trigger = self._trigger
        if trigger.acked is not None:
            acked = self._counters.acked()
            return Seen(fired=acked >= trigger.acked, what=f"{acked} acked")
        if trigger.after is not None:
            passed_s = time.monotonic() - self._since
            return Seen(fired=passed_s >= duration_s(trigger.after), what=f"{passed_s:.1f} s passed")
        if trigger.hw_at_least is not None:
            high_watermark = self._counters.high_watermark(*TopicPartition.parse(trigger.hw_at_least.partition))
            fired = high_watermark is not None and high_watermark >= trigger.hw_at_least.offset
            return Seen(fired=fired, what=f"HW {high_watermark}")
        if trigger.broker_is is not None:
            (broker,) = self._view.resolve(parse_role(trigger.broker_is.broker))[:1]
            event = self._view.image.brokers.get(broker)
            state = "not registered yet" if event is None else event.event
            return Seen(fired=state == trigger.broker_is.state, what=f"broker {broker} {state}")
        return self._look_at_partition(trigger)

    def _look_at_partition(self, trigger: Trigger) -> Seen:
        asked = trigger.isr or trigger.elr_contains or trigger.leader_is or trigger.epoch_above
        assert asked is not None, "validation lets no trigger through that asks nothing"
        state = self._view.partition(asked.partition)
        if state is None:
            return Seen(fired=False, what=f"{asked.partition} does not exist yet")
        if trigger.isr is not None:
            size = len(state.isr)
            fired = size == trigger.isr.size if trigger.isr.size is not None else size >= (trigger.isr.at_least or 0)
        elif trigger.epoch_above is not None:
            fired = state.leader_epoch > trigger.epoch_above.epoch
        elif trigger.elr_contains is not None:
            fired = set(self._view.resolve(parse_role(trigger.elr_contains.broker))) <= set(state.elr)
        elif trigger.leader_is is not None and trigger.leader_is.broker == "none":
            fired = state.leader < 0
        else:
            assert trigger.leader_is is not None
            fired = state.leader in self._view.resolve(parse_role(trigger.leader_is.broker))
        return Seen(fired=fired, what=describe(state))


def text_of(trigger: Trigger) -> str:
    """The trigger as a person reads it: `acked 1000`, `isr of t-0 size 1`."""
    ((key, value),) = given(trigger).items()
    if not isinstance(value, dict):
        return f"{key} {value}"
    rest = ", ".join(f"{name} {one}" for name, one in value.items() if name != "partition")
    return f"{key} of {value['partition']}: {rest}" if "partition" in value else f"{key}: {rest}"
