"""Carries the steps of a scenario out: waits for the trigger, resolves roles, injects, keeps the proof."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from cluster.runtime.base import LogLoss, Runtime
from ebbtide.errors import EbbtideError
from ebbtide.record.steps import StepEntry, write_steps
from ebbtide.scenario.model import StepSpec, Trigger
from ebbtide.scenario.roles import CLIENTS
from ebbtide.scenario.steps.table import ADMIN_KINDS, HEALED_BY, TAKES_DOWN, WIRE_KINDS, StepKind
from ebbtide.scenario.write import given
from ebbtide.waiting import WaitExpired, wait_until
from faults.admin import Administer
from faults.base import Effect, Pending
from faults.families import Faults
from faults.injector import Plan
from harness.runner.display import Display
from harness.runner.gates import Gate, GateWatch, state_entry
from harness.runner.triggers import Counters, Seen, Watch, text_of
from harness.runner.view import ClusterView, RoleUnresolved


class Schedule:
    """The steps of one run; `entries` is what has happened, written to steps.jsonl at each change."""

    def __init__(
        self,
        steps: tuple[StepSpec, ...],
        *,
        record: Path,
        runtime: Runtime,
        view: ClusterView,
        counters: Counters,
        administer: Administer,
        display: Display,
        pump: Callable[[], None],
        gates: Mapping[int, Gate] | None = None,
    ) -> None:
        """`pump` is called at every look of a wait: it reads what is new and raises when a process died unasked.

        `gates`: per step, what it waits for besides its trigger.
        """
        self._steps = steps
        self._gates = dict(gates or {})
        self._record = record
        self._runtime = runtime
        self._view = view
        self._counters = counters
        self._display = display
        self._pump = pump
        self._faults = Faults(runtime, view, administer, pump, record)
        self._armed: dict[int, Pending] = {}
        self._broken: dict[int, set[int]] = {}
        """Steps whose effect lasts, by index: the nodes on which it does. Rules on the wire are in `_armed`."""
        self.entries = [_planned(index, step) for index, step in enumerate(steps)]
        self._write()

    def run(self) -> bool:
        """Carry the steps out in order; false when one never fired that is not optional, which ends the schedule.

        Raises `EbbtideError` when one could not be injected; its entry then says why, too.
        """
        return all(self._carry_out(index, step) for index, step in enumerate(self._steps))

    def add(self, step: StepSpec) -> StepEntry:
        """Carry one more step out now; its entry says what became of it.

        Raises `EbbtideError` when it could not be injected; the entry then says why, too.
        """
        index = len(self.entries)
        self._steps = (*self._steps, step)
        self.entries.append(_planned(index, step))
        self._write()
        self._carry_out(index, step)
        return self.entries[index]

    def found_down(self, node: int) -> None:
        """Take note of a node that no step stopped, so that it can be started again."""
        self._faults.down.add(node)

    @property
    def down(self) -> Collection[int]:
        """Nodes that a step stopped, or whose death it may cause."""
        return self._faults.down

    @property
    def paused(self) -> Collection[int]:
        """Nodes that a step froze."""
        return self._faults.paused

    @property
    def in_force(self) -> list[tuple[StepKind, int]]:
        """The faults that last, each with a node that it is on; of a node that died by itself, a kill.

        Of several kinds that come to the same for what can be done next, one stands for all.
        """
        faults = self._faults
        found: list[tuple[StepKind, int]] = [("partition", CLIENTS)] if faults.network.cut else []
        ended_by: dict[int, StepKind] = {}
        for index, nodes in self._broken.items():
            kind = self._steps[index].step
            ended_by |= {node: kind for node in nodes if kind in TAKES_DOWN}
        for node in self._runtime.nodes:
            if self._runtime.pid(node) is None:
                found.append((ended_by.get(node, "kill"), node))
        found += [("pause", node) for node in faults.paused]
        found += [("fail-disk", node) for node in sorted(faults.troubled)]
        found += [("hold-request", node) for rule in faults.wire.in_force() for node in rule.matter.nodes]
        return found

    @property
    def deleted_topics(self) -> Collection[str]:
        """Topics that a step asked to delete."""
        return self._faults.admin.deleted_topics

    def restore(self) -> None:
        """Undo what the steps left broken, so that the run can settle: rules on the wire, cuts, frozen nodes,
        volumes, dead nodes.

        What was asked of Kafka stays. Volumes come before the nodes that live on them, and a frozen node runs again
        before it may have to end.
        """
        faults = self._faults
        rules = faults.wire.in_force()
        if rules:
            self._display.note("releasing what is held on the wire")
            faults.wire.release(rules)
            self.look_at_wire()
        if faults.network.cut:
            self._display.note("healing the cuts that are left")
            self._undone("heal", None, faults.network.heal())
        left_broken: list[tuple[StepKind, Collection[int]]] = [
            ("resume", sorted(faults.paused)),
            ("mend-disk", sorted(faults.troubled)),
        ]
        for kind, nodes in left_broken:
            for node in nodes:
                self._undone(kind, node, faults.inject(kind, node))
        left = faults.to_start()
        if left:
            self._display.note(f"starting the nodes that are still down: {faults.names(left)}")
            for node in left:
                self._undone("start", node, faults.inject("start", node))
        faults.down.clear()

    def look_at_wire(self) -> None:
        """Read what the wire proxies told, and note which rules took effect. Raises `HarnessError` when one died."""
        self._faults.wire.poll()
        for index, armed in list(self._armed.items()):
            effect, entry = armed.effect(), self.entries[index]
            if effect.effect_ns is not None and entry.effect_ns is None:
                self._display.note(f"{entry.step} of step {index}: took effect")
            elif armed.in_force:
                continue
            self._change(index, effect_ns=effect.effect_ns, proof=effect.proof, why=effect.why)
            if not armed.in_force:
                del self._armed[index]
                self._change(index, healed_ns=time.time_ns())

    def _carry_out(self, index: int, step: StepSpec) -> bool:
        try:
            try:
                self._await(index, step)
                plan = self._faults.plan(step)
            except (WaitExpired, RoleUnresolved) as error:
                self._change(index, why=error.render())
                what = "left out" if step.optional else "never fired"
                self._display.note(f"step {index} ({step.step}) {what}: {error.render()}")
                return step.optional is True
            self._fire(index, step, plan)
        except EbbtideError as error:
            error.add_where(f"step {index} ({step.step}{f', {step.name}' if step.name else ''})")
            self._change(index, why=error.render())
            raise
        return True

    def _await(self, index: int, step: StepSpec) -> None:
        gate = self._gates.get(index)
        # From now on: what comes about while the trigger is awaited is part of the recorded state.
        watch = GateWatch(gate, self._view, self._counters, self.entries[:index]) if gate is not None else None
        if step.trigger is not None and not (gate is not None and gate.instead_of_trigger):
            self._await_trigger(step, step.trigger, watch)
        if gate is not None and watch is not None:
            self._await_state(index, gate, watch)

    def _await_state(self, index: int, gate: Gate, watch: GateWatch) -> None:
        """A state that does not come about keeps no step from firing, and no later one from waiting for its own."""
        began = time.monotonic()

        def reached() -> bool:
            self._pump()
            return watch.look().fired

        try:
            wait_until(reached, awaited="the recorded state", timeout_s=gate.patience_s)
            came = not watch.departed
        except WaitExpired:
            came = False
        seen = watch.look().what
        self._change(index, state=state_entry(gate, reached=came, waited_s=time.monotonic() - began, seen=seen))
        if not came:
            kind = self._steps[index].step
            self._display.note(f"departed before step {index} ({kind}): the recorded state did not come about: {seen}")

    def _await_trigger(self, step: StepSpec, trigger: Trigger, gate: GateWatch | None) -> None:
        watch = Watch(trigger, self._view, self._counters, self._faults.wire.held)

        def look() -> Seen:
            try:
                return watch.look()
            except RoleUnresolved as nobody:
                # For now: a leader may yet be elected.
                return Seen(fired=False, what=f"{nobody.what}: {nobody.got}")

        def fired() -> bool:
            self._pump()
            if gate is not None:
                gate.look()
            return look().fired

        wait_until(
            fired,
            awaited=f"the trigger {text_of(trigger)}",
            timeout_s=step.deadline_s,
            last_seen=lambda: look().what,
        )

    def _fire(self, index: int, step: StepSpec, plan: Plan) -> None:
        fired_ns = time.time_ns()
        self._change(index, nodes=plan.nodes, whom=plan.told or None, fired_ns=fired_ns)
        # Of a rule on the wire `look_at_wire` sees when it ends: not with the first release at its nodes.
        if step.step in HEALED_BY and step.step not in WIRE_KINDS:
            self._broken[index] = set(plan.nodes)
        frozen = {node: self._runtime.pid(node) for node in self._faults.paused}
        done = plan.act()
        effect = done if isinstance(done, Effect) else done.effect()
        # What an armed rule is about may still come by: why it never did is said once the rule has ended.
        why = effect.why if isinstance(done, Effect) else None
        self._change(index, effect_ns=effect.effect_ns, proof=effect.proof, why=why)
        for node in plan.nodes or (None,):
            if effect.effect_ns is not None or _proven_on(effect, node):
                self._healed(step.step, node)
        for node, pid in frozen.items():
            if self._runtime.pid(node) != pid:
                # The process that was paused is there no more.
                self._healed("resume", node)
        if step.name is not None:
            self._view.remember(step.name, plan.nodes if plan.target is None else plan.target)
        if not isinstance(done, Effect):
            self._armed[index] = done
            self._display.note(f"{step.step} {plan.told}: armed")
        else:
            self._display.note(_told(step, plan.told, effect))
        self.look_at_wire()

    def _undone(self, healer: StepKind, node: int | None, effect: Effect) -> None:
        """Note what a heal at the end ended; of one without proof, why it ended nothing."""
        if effect.effect_ns is not None:
            self._healed(healer, node)
        else:
            whom = "" if node is None else self._faults.names([node])
            self._display.note(_without_proof(f"{healer} {whom}".rstrip(), effect))

    def _healed(self, healer: StepKind, node: int | None) -> None:
        """Note that `healer` ended the effect of earlier steps on `node`, or everywhere."""
        now_ns = time.time_ns()
        for index, broken in list(self._broken.items()):
            entry = self.entries[index]
            if HEALED_BY[entry.step] != healer or (node is not None and node not in broken):
                continue
            if healer == "mend-disk" and node is not None:
                self._change(index, proof=_with_losses(entry.proof, node, self._faults.disk.lost(node)))
            self._broken[index] = broken = set() if node is None else broken - {node}
            if not broken:
                del self._broken[index]
                self._change(index, healed_ns=now_ns)

    def _change(self, index: int, **changes: object) -> None:
        self.entries[index] = msgspec.structs.replace(self.entries[index], **changes)
        self._write()

    def _write(self) -> None:
        write_steps(self._record, self.entries)


def _proven_on(effect: Effect, node: int | None) -> bool:
    """Whether it has a proof on this one of its nodes, though not on all."""
    own = effect.proof.get("nodes", {}).get(str(node), {})
    return bool(own.get("probe") == "ok")


def _told(step: StepSpec, whom: str, effect: Effect) -> str:
    what = whom if step.step in ADMIN_KINDS else f"{step.step} {whom}".rstrip()
    if effect.effect_ns is None:
        return _without_proof(what, effect, optional=step.optional is True)
    lost = effect.proof.get("lost_bytes")
    return f"{what}: took effect" + (f", {lost} bytes gone" if lost is not None else "")


def _without_proof(what: str, effect: Effect, *, optional: bool = False) -> str:
    """`optional`: it leaves no run inconclusive."""
    return f"{what}: NO PROOF that it took effect{' (optional)' if optional else ''}: {effect.why}"


def _planned(index: int, step: StepSpec) -> StepEntry:
    return StepEntry(
        index=index,
        step=step.step,
        trigger=given(step.trigger) if step.trigger else {},
        parameters=_parameters(step),
    )


def _parameters(step: StepSpec) -> dict[str, object]:
    """The step's own keys as in the scenario file; kind and trigger have their own places in the entry."""
    return {key: value for key, value in given(step).items() if key not in ("step", "trigger") and value != []}


def _with_losses(proof: dict[str, Any], node: int, lost: dict[str, LogLoss]) -> dict[str, Any]:
    """The proof of a fault whose losses showed only when the volume was mounted again."""
    if not lost:
        return proof
    figures = {"lost_bytes": sum(log.lost_bytes for log in lost.values()), "logs": msgspec.to_builtins(lost)}
    by_node = proof.get("nodes")
    if by_node is None:
        return {**proof, **figures}
    total = proof.get("lost_bytes", 0) + figures["lost_bytes"]
    return {**proof, "lost_bytes": total, "nodes": {**by_node, str(node): {**by_node[str(node)], **figures}}}
