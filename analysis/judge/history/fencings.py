"""Finds the fencings that show a host too busy for its cluster: those of brokers that no step kept from the controller.

The heartbeats of such a broker came late because it, the controller or the host was slow.
"""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.record.rows import BrokerEvent
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.table import (
    CLOCK_KINDS,
    CUT_KINDS,
    DISK_TROUBLES,
    KINDS,
    NETWORK_FAULTS,
    TAKES_DOWN,
    WIRE_KINDS,
)

_END_BY_THEMSELVES = frozenset(kind for kind, one in KINDS.items() if one.ends_itself)
STOPS_A_NODE = TAKES_DOWN | DISK_TROUBLES | {"pause", "restart", "rolling", "upgrade"}
"""Steps after which a node does nothing for a while, or is slow."""
_DELAYS_HEARTBEATS = STOPS_A_NODE | CUT_KINDS | NETWORK_FAULTS | WIRE_KINDS | CLOCK_KINDS
"""A clock that goes back makes a node wait: it connects again only after as long as the clock went back."""


def unexplained_fencings(
    brokers: Sequence[BrokerEvent], steps: Sequence[StepEntry], controllers: Sequence[int], session_ns: int
) -> list[int]:
    """Return the times, in ns, of the fencings that no step explains.

    A step explains those of its nodes from its start to one session after its end; one on a controller, or on no node
    in particular, explains those of all brokers.
    """
    fencings = [event for event in brokers if event.event == "fenced"]
    return [
        fencing.at_ns
        for fencing in fencings
        if not any(_explains(step, fencing, controllers, session_ns) for step in steps)
    ]


def end_of(step: StepEntry) -> int | None:
    """Return when the effect of the step was over, in ns; None: never, or at no known time."""
    return step.effect_ns if step.step in _END_BY_THEMSELVES else step.healed_ns


def _explains(step: StepEntry, fencing: BrokerEvent, controllers: Sequence[int], session_ns: int) -> bool:
    if step.step not in _DELAYS_HEARTBEATS or step.fired_ns is None or step.fired_ns > fencing.at_ns:
        return False
    if step.nodes and {fencing.broker, *controllers}.isdisjoint(step.nodes):
        return False
    ended_ns = end_of(step)
    return ended_ns is None or fencing.at_ns <= ended_ns + session_ns
