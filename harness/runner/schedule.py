"""Carries out the steps of a scenario.

For each step it waits for the trigger, resolves roles, injects, and keeps the proof.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

import msgspec

from cluster.runtime.base import LogLoss
from cluster.runtime.cluster import Runtime
from ebbtide import run_clock
from ebbtide.errors import EbbtideError
from ebbtide.record.files import RecordFolder
from ebbtide.record.node_times import NodeTimes, merge_times
from ebbtide.record.steps import StepEntry, write_steps
from ebbtide.scenario.steps.step import StepProof, StepSpec
from ebbtide.scenario.steps.table import ADMIN_KINDS, DISK_TROUBLES, HEALED_BY, TAKES_DOWN, WIRE_KINDS, StepKind
from ebbtide.scenario.triggers import AfterTrigger, Trigger
from ebbtide.scenario.validate_order import FaultNow
from ebbtide.scenario.words import CLIENTS
from ebbtide.scenario.write import keys_set
from ebbtide.waiting import WaitExpired, wait_until
from faults.admin import Administer
from faults.base import Effect, PendingFault
from faults.clients import Clients
from faults.families import Faults
from faults.injector import Plan
from faults.replica_replies import AskReplicas
from harness.runner.display import Awaited, Display
from harness.runner.gates import Gate, GateWatch, state_entry
from harness.runner.recovery import choose
from harness.runner.triggers import Counters, Observation, TriggerWatch, text_of
from harness.runner.view import ClusterView, RoleUnresolved


class Schedule:
    """The steps of one run.

    `entries` are their results so far, written to steps.jsonl at each change.
    """

    def __init__(
        self,
        steps: tuple[StepSpec, ...],
        *,
        record: RecordFolder,
        runtime: Runtime,
        view: ClusterView,
        counters: Counters,
        administer: Administer,
        ask_replicas: AskReplicas,
        clients: Clients,
        display: Display,
        poll_cluster: Callable[[], None],
        gates: Mapping[int, Gate] | None = None,
    ) -> None:
        """Every check of a wait calls `poll_cluster`.

        `poll_cluster` reads what is new, and raises if a process died by itself. `gates`: the state
        that a step waits for besides its trigger, by index.
        """
        self._steps = steps
        self._gates = dict(gates or {})
        self._record = record
        self._runtime = runtime
        self._view = view
        self._counters = counters
        self._display = display
        self._poll_cluster = poll_cluster
        self._faults = Faults(runtime, view, administer, ask_replicas, choose, poll_cluster, record, clients)
        self._armed: dict[int, PendingFault] = {}
        self._broken: dict[int, set[int]] = {}
        """The nodes on which the effect of a step lasts, by the step's index; `_armed` has the wire rules."""
        self.entries = [_planned_entry(index, step) for index, step in enumerate(steps)]
        self.awaited: Awaited | None = None
        """What a step waits for now."""
        self._write()

    def run(self) -> bool:
        """Carry out the steps in order.

        Returns false if a step that is not optional never fired, which ends them.

        Raises `EbbtideError` if a step could not be injected; its entry then says why, too.
        """
        return all(self._carry_out(index, step) for index, step in enumerate(self._steps))

    def add(self, step: StepSpec) -> StepEntry:
        """Carry out one more step now, and return its entry.

        Raises `EbbtideError` if it could not be injected; the entry then says why, too.
        """
        index = len(self.entries)
        self._steps = (*self._steps, step)
        self.entries.append(_planned_entry(index, step))
        self._write()
        self._carry_out(index, step)
        return self.entries[index]

    def plan(self, step: StepSpec) -> Plan:
        """Return how a step that is not one of the schedule would be carried out now. Raises `RoleUnresolved`."""
        return self._faults.plan(step)

    def note_down(self, node: int) -> None:
        """Note that a node is down which no step stopped, so that it can be started again."""
        self._faults.down.add(node)

    def note_end(self, node: int) -> None:
        """Note, in the step that broke the volume of a node which is down, when its process ended by itself."""
        on_node = [self.entries[index] for index, broken in self._broken.items() if node in broken]
        if any(entry.step in TAKES_DOWN for entry in on_node):
            return
        for entry in on_node:
            if entry.step in DISK_TROUBLES and entry.of_node.get(node, NodeTimes()).ended is None:
                ended = {node: NodeTimes(ended=self._runtime.process_times(node).ended)}
                self._change(entry.index, of_node=merge_times([entry.of_node, ended]))

    @property
    def down(self) -> Collection[int]:
        """The nodes that a step stopped, or whose death a step may cause."""
        return self._faults.down

    @property
    def paused_nodes(self) -> Collection[int]:
        """The nodes that a step paused."""
        return self._faults.paused

    @property
    def in_force(self) -> list[FaultNow]:
        """The faults in force, each with a node that it is on.

        A node that died by itself counts as killed.

        Kinds that allow the same next steps are represented by one of them.
        """
        faults = self._faults
        found = [FaultNow("partition", CLIENTS)] if faults.network.cut else []
        ended_by: dict[int, StepKind] = {}
        for index, nodes in self._broken.items():
            kind = self._steps[index].step
            ended_by |= {node: kind for node in nodes if kind in TAKES_DOWN}
        for node in self._runtime.nodes:
            if self._runtime.pid(node) is None:
                found.append(FaultNow(ended_by.get(node, "kill"), node))
        found += [FaultNow("pause", node) for node in faults.paused]
        found += [fault for _, fault in sorted(faults.troubled.items())]
        found += [FaultNow("set-clock", node) for node in sorted(faults.clock.off)]
        rules = faults.wire.rules_in_force()
        found += [FaultNow("hold-request", node) for rule in rules for node in rule.wire_rule.nodes]
        return found

    @property
    def deleted_topics(self) -> Collection[str]:
        """The topics that a step asked to delete."""
        return self._faults.admin.deleted_topics

    def restore(self) -> None:
        """Heal what the steps broke: wire rules, cuts, paused nodes, volumes, dead nodes, clocks.

        Admin requests are not undone. Volumes come before the nodes that live on them, and a paused node resumes before
        it may have to end.
        """
        faults = self._faults
        rules = faults.wire.rules_in_force()
        if rules:
            self._display.note("releasing the wire rules that are left")
            faults.wire.release(rules)
            self.look_at_wire()
        if faults.network.cut:
            self._display.note("healing the cuts that are left")
            self._note_undone("heal", None, faults.network.heal())
        left_broken: list[tuple[StepKind, Collection[int]]] = [
            ("resume", sorted(faults.paused)),
            ("mend-disk", sorted(faults.troubled)),
        ]
        for kind, nodes in left_broken:
            for node in nodes:
                self._note_undone(kind, node, faults.inject(kind, node))
        left = faults.nodes_to_start()
        if left:
            self._display.note(f"starting the nodes that are still down: {faults.node_names(left)}")
            for node in left:
                self._note_undone("start", node, faults.inject("start", node))
        faults.down.clear()
        # Last: only a node that runs can show that its clock is right.
        for node in sorted(faults.clock.off):
            self._note_undone("reset-clock", node, faults.clock.reset((node,)))

    def look_at_wire(self) -> None:
        """Read the reports of the wire proxies, and note the rules that took effect.

        Raises `HarnessError` if a proxy died.
        """
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
                self._change(index, healed_ns=run_clock.now_ns())

    def _carry_out(self, index: int, step: StepSpec) -> bool:
        try:
            try:
                try:
                    self._await(index, step)
                finally:
                    self.awaited = None
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
        # The gate watches from now on: a state that comes while the trigger waits is part of the recorded one.
        watch = GateWatch(gate, self._view, self._counters, self.entries[:index]) if gate is not None else None
        if step.trigger is not None and not (gate is not None and gate.instead_of_trigger):
            self._await_trigger(index, step, step.trigger, watch)
        if gate is not None and watch is not None:
            self._await_state(index, gate, watch)

    def _await_state(self, index: int, gate: Gate, watch: GateWatch) -> None:
        """Wait for the recorded state.

        If it does not come, the step fires anyway, and later gates still wait.
        """
        began = time.monotonic()

        def is_reached() -> bool:
            self._poll_cluster()
            observed = watch.look()
            self.awaited = Awaited(index, "the recorded state", observed.what)
            return observed.fired

        try:
            wait_until(is_reached, awaited="the recorded state", timeout_s=gate.patience_s)
            came = not watch.has_departed
        except WaitExpired:
            came = False
        seen = watch.look().what
        self._change(index, state=state_entry(gate, reached=came, waited_s=time.monotonic() - began, seen=seen))
        if not came:
            kind = self._steps[index].step
            self._display.note(f"departed before step {index} ({kind}): the recorded state did not come: {seen}")

    def _await_trigger(self, index: int, step: StepSpec, trigger: Trigger, gate: GateWatch | None) -> None:
        watch = TriggerWatch(trigger, self._view, self._counters, self._faults.wire.held_count)

        def look() -> Observation:
            try:
                return watch.look()
            except RoleUnresolved as nobody:
                # Not an error yet: a leader may still be elected.
                return Observation(fired=False, what=f"{nobody.what}: {nobody.got}")

        def has_fired() -> bool:
            self._poll_cluster()
            if gate is not None:
                gate.look()
            observed = look()
            self.awaited = Awaited(index, text_of(trigger), observed.what)
            return observed.fired

        wait_until(
            has_fired,
            awaited=f"the trigger {text_of(trigger)}",
            # A busy host may look a moment too late at a time that has passed for sure.
            timeout_s=step.deadline_s + (trigger.seconds if isinstance(trigger, AfterTrigger) else 0.0),
            last_seen=lambda: look().what,
        )

    def _fire(self, index: int, step: StepSpec, plan: Plan) -> None:
        fired_ns = run_clock.now_ns()
        self._change(index, nodes=plan.nodes, whom=plan.description or None, sides=plan.sides, fired_ns=fired_ns)
        # `look_at_wire` sees when a wire rule ends; the first release at its nodes does not end it.
        if step.step in HEALED_BY and step.step not in WIRE_KINDS:
            self._broken[index] = set(plan.nodes)
        frozen = {node: self._runtime.pid(node) for node in self._faults.paused}
        done = plan.act()
        effect = done if isinstance(done, Effect) else done.effect()
        # An armed rule may still meet a request; its entry says why it did not only after the rule has ended.
        why = effect.why if isinstance(done, Effect) else None
        self._change(index, effect_ns=effect.effect_ns, proof=effect.proof, why=why, of_node=dict(effect.of_node))
        for node in plan.nodes or (None,):
            if effect.effect_ns is not None or _has_proof_on(effect, node):
                self._mark_healed(step.step, node)
        for node, pid in frozen.items():
            if self._runtime.pid(node) != pid:
                # The paused process has ended.
                self._mark_healed("resume", node)
        if step.name is not None:
            self._view.remember(step.name, plan.nodes if plan.target is None else plan.target)
        if not isinstance(done, Effect):
            self._armed[index] = done
            self._display.note(f"{step.step} {plan.description}: armed")
        else:
            self._display.note(_effect_text(step, plan.description, effect))
        self.look_at_wire()

    def _note_undone(self, healer: StepKind, node: int | None, effect: Effect) -> None:
        """Note what a heal at the end of the run ended, or why it has no proof."""
        if effect.effect_ns is not None:
            self._mark_healed(healer, node)
        else:
            whom = "" if node is None else self._faults.node_names([node])
            self._display.note(_no_proof_text(f"{healer} {whom}".rstrip(), effect))

    def _mark_healed(self, healer: StepKind, node: int | None) -> None:
        """Record that `healer` ended the effect of earlier steps.

        It ended the effect on `node`, or on all nodes.
        """
        now_ns = run_clock.now_ns()
        for index, broken in list(self._broken.items()):
            entry = self.entries[index]
            if HEALED_BY[entry.step] != healer or (node is not None and node not in broken):
                continue
            if healer == "mend-disk" and node is not None:
                self._change(index, proof=_with_losses(entry, node, self._faults.disk.log_losses(node)))
            self._broken[index] = broken = set() if node is None else broken - {node}
            if not broken:
                del self._broken[index]
                self._change(index, healed_ns=now_ns)

    def _change(self, index: int, **changes: object) -> None:
        self.entries[index] = msgspec.structs.replace(self.entries[index], **changes)
        self._write()

    def _write(self) -> None:
        write_steps(self._record, self.entries)


def _has_proof_on(effect: Effect, node: int | None) -> bool:
    """Whether the effect has a proof on this node, even if not on all its nodes."""
    proof = effect.figures
    return node in (proof.nodes or ()) and node is not None and proof.of(node).probe == "ok"


def _effect_text(step: StepSpec, whom: str, effect: Effect) -> str:
    what = whom if step.step in ADMIN_KINDS else f"{step.step} {whom}".rstrip()
    if effect.effect_ns is None:
        return _no_proof_text(what, effect, optional=step.optional is True)
    if step.step == "wait" and step.trigger is not None:
        return f"the wait is over: {text_of(step.trigger)}"
    lost = effect.figures.lost_bytes
    return f"{what}: took effect" + (f", {lost:,} bytes lost" if lost is not None else "")


def _no_proof_text(what: str, effect: Effect, *, optional: bool = False) -> str:
    """Say that a step has no proof; an optional one does not make the run inconclusive."""
    return f"{what}: NO PROOF that it took effect{' (optional)' if optional else ''}: {effect.why}"


def _planned_entry(index: int, step: StepSpec) -> StepEntry:
    return StepEntry(
        index=index,
        step=step.step,
        trigger=keys_set(step.trigger) if step.trigger else {},
        parameters=_parameters(step),
    )


def _parameters(step: StepSpec) -> dict[str, object]:
    """Return the step's own keys as in the scenario file.

    The entry has kind and trigger in columns of their own.
    """
    return {key: value for key, value in keys_set(step).items() if key not in ("step", "trigger") and value != []}


def _with_losses(entry: StepEntry, node: int, lost: dict[str, LogLoss]) -> dict[str, object]:
    """Return the step's proof with the losses that only the remounted volume showed."""
    if not lost:
        return entry.proof
    lost_bytes = sum(log.lost_bytes for log in lost.values())
    figures = {"lost_bytes": lost_bytes, "logs": msgspec.to_builtins(lost)}
    known = entry.figures(StepProof)
    if known.nodes is None:
        return {**entry.proof, **figures}
    by_node = {str(one): of | figures if one == node else of for one, of in known.nodes.items()}
    return {**entry.proof, "lost_bytes": (known.lost_bytes or 0) + lost_bytes, "nodes": by_node}
