"""Clock faults: the wall clock of a node's Kafka is set ahead or back, and right again.

They are proven by the node itself: an agent in its process notes each time that Kafka's own clock returns
(`cluster.runtime.node_clocks`). A fresh note right before the step and one right after it must differ as the step says.
"""

from __future__ import annotations

import time
from functools import partial

import msgspec

from ebbtide.errors import StepImpossible
from ebbtide.record.clock import CLOCK_AHEAD
from ebbtide.scenario.steps.clock import ResetClockStep, SetClockStep
from ebbtide.scenario.steps.step import target_of
from ebbtide.waiting import WaitExpired, wait_until
from faults.base import Effect, merge_effects, proven_effect, unproven_effect
from faults.injector import Family, Injector, Plan
from faults.process import running_pid

NOTE_TIMEOUT_S = 5.0
"""How long (s) a node may take to read its clock; an idle node reads it every 0.1 s."""
TOLERANCE_MS = 250
"""How far (ms) a note may be off: it is read a moment after the node wrote it. The smallest offset is a second."""

_NS_PER_MS = 1_000_000


class ClockFaults:
    """The clocks of one run's nodes. `off`: the nodes whose clock is set off."""

    def __init__(self, injector: Injector) -> None:
        self._injector = injector
        self.off: set[int] = set()

    @property
    def family(self) -> Family:
        """How each kind is carried out."""
        return Family(plans={SetClockStep: self._plan_set, ResetClockStep: self._plan_reset})

    def reset(self, nodes: tuple[int, ...]) -> Effect:
        """Set the clocks of nodes right. Proven when each was off and is right now."""
        return self._set(nodes, 0)

    def _plan_set(self, step: SetClockStep) -> Plan:
        return self._plan(step, step.offset.milliseconds)

    def _plan_reset(self, step: ResetClockStep) -> Plan:
        return self._plan(step, 0)

    def _plan(self, step: SetClockStep | ResetClockStep, offset_ms: int) -> Plan:
        role = target_of(step)
        if role is not None:
            nodes = self._injector.view.resolve(role)
        else:
            nodes = tuple(sorted(self._injector.runtime.nodes if offset_ms else self.off))
        description = self._injector.node_names(nodes)
        return Plan(nodes=nodes, description=description, act=partial(self._set, nodes, offset_ms))

    def _set(self, nodes: tuple[int, ...], offset_ms: int) -> Effect:
        """Set all clocks at once, between a look at each before and a look at each after."""
        if not self._injector.runtime.clocks.is_enabled:
            raise StepImpossible("the nodes started without the agent that sets their clocks")
        for node in nodes:
            running_pid(self._injector.runtime, node)
        before = {node: self._ahead_ms(node) for node in nodes}
        seen = [node for node in nodes if before[node] is not None]
        for node in seen:
            self._injector.runtime.clocks.set(node, offset_ms)
        self.off.update(seen)
        if not nodes:
            return unproven_effect("no clock is set off")
        whole = merge_effects(nodes, [self._effect(node, before[node], offset_ms) for node in nodes])
        # Also without a proof: the times of a node whose clock may be off are not taken as they are.
        return msgspec.structs.replace(
            whole, proof={**whole.proof, CLOCK_AHEAD: {str(node): offset_ms * _NS_PER_MS for node in seen}}
        )

    def _effect(self, node: int, before_ms: int | None, offset_ms: int) -> Effect:
        figures = {"offset_ms": offset_ms, "before_ms": before_ms}
        name = self._injector.node_names([node])
        if before_ms is None:
            return unproven_effect(f"{name} did not read its clock within {NOTE_TIMEOUT_S:g} s", **figures)
        after_ms = self._ahead_ms(node, offset_ms)
        figures["after_ms"] = after_ms
        if after_ms is None:
            return unproven_effect(f"the clock of {name} did not become {offset_ms:+,} ms off the host's", **figures)
        if not offset_ms:
            self.off.discard(node)
        if abs(before_ms - offset_ms) <= 2 * TOLERANCE_MS:
            return unproven_effect(f"the clock of {name} was {before_ms:+,} ms off the host's before", **figures)
        return proven_effect(**figures)

    def _ahead_ms(self, node: int, offset_ms: int | None = None) -> int | None:
        """Return by how much a fresh note of the node is ahead of the host's clock; None: there is no such note.

        It must be `offset_ms`, or may be anything if that is None.
        """
        last_ms = self._injector.runtime.clocks.returned_ms(node)

        def fresh_note() -> tuple[int] | None:
            returned_ms = self._injector.runtime.clocks.returned_ms(node)
            ahead_ms = returned_ms - time.time_ns() // _NS_PER_MS
            is_right = offset_ms is None or abs(ahead_ms - offset_ms) <= TOLERANCE_MS
            return (ahead_ms,) if is_right and returned_ms != last_ms else None

        try:
            return wait_until(fresh_note, awaited="a fresh note", timeout_s=NOTE_TIMEOUT_S, poll_s=0.005)[0]
        except WaitExpired:
            return None
