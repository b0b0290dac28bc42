"""Finds when the harness surely ended a broker's process."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.table import TAKES_DOWN


class BrokerStop(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's process ended between `fired_ns` and `done_ns`."""

    broker: int
    fired_ns: int
    done_ns: int


def stops(steps: Iterable[StepEntry]) -> tuple[BrokerStop, ...]:
    """Return the stops of a schedule that were proven."""
    return tuple(
        BrokerStop(broker=node, fired_ns=step.fired_ns, done_ns=step.effect_ns)
        for step in steps
        if step.step in TAKES_DOWN and step.fired_ns is not None and step.effect_ns is not None
        for node in step.nodes
    )
