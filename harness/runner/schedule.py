"""Carries the steps of a scenario out: waits for the trigger, resolves roles, injects, keeps the proof."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from faults.base import HEALED_BY, Effect
from faults.disk import power_loss
from faults.network import between, heal, one_way, partition
from faults.process import kill, pause, resume, start, stop
from harness.record.steps import StepEntry, write_steps
from harness.runner.display import Display
from harness.runner.triggers import Counters, Watch, text_of
from harness.runner.view import ClusterView, RoleUnresolved
from harness.runtime.base import CLIENTS, Cut, Runtime
from harness.scenario.model import StepSpec
from harness.scenario.roles import parse_role
from harness.scenario.write import given
from harness.waiting import WaitExpired, wait_until

_INJECT: dict[str, Callable[[Runtime, int], Effect]] = {
    "kill": kill,
    "stop": stop,
    "pause": pause,
    "resume": resume,
    "start": start,
    "power-loss": power_loss,
}


def _undone_by(step: str) -> tuple[str, ...]:
    """The kinds of step whose effect `step` ends."""
    return tuple(kind for kind, healer in HEALED_BY.items() if healer == step)


_DOWN = _undone_by("start")


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
        display: Display,
        pump: Callable[[], None],
    ) -> None:
        """`pump` is called at every look of a wait: it reads what is new and raises when a process died unasked."""
        self._steps = steps
        self._record = record
        self._runtime = runtime
        self._view = view
        self._counters = counters
        self._display = display
        self._pump = pump
        self.down: set[int] = set()
        self.paused: set[int] = set()
        self.cut = False
        self.entries = [
            StepEntry(
                index=index,
                step=step.step,
                trigger=given(step.trigger) if step.trigger else {},
                parameters=_parameters(step),
            )
            for index, step in enumerate(steps)
        ]
        self._write()

    def run(self) -> bool:
        """Carry the steps out in order; false when one never fired, which ends the schedule."""
        for index, step in enumerate(self._steps):
            try:
                self._await(step)
                nodes = self._targets(step)
            except (WaitExpired, RoleUnresolved) as error:
                self._change(index, why=error.render())
                self._display.note(f"step {index} ({step.step}) never fired: {error.render()}")
                return False
            self._fire(index, step, nodes)
        return True

    def restore(self) -> None:
        """Undo what the steps left broken: cuts, paused and stopped nodes; the run then settles."""
        if self.cut:
            self._display.note("healing the cuts that are left")
            heal(self._runtime)
            self._healed(_undone_by("heal"), None)
            self.cut = False
        for node in sorted(self.paused):
            resume(self._runtime, node)
            self._healed(_undone_by("resume"), node)
        self.paused.clear()
        if self.down:
            self._display.note(f"starting the nodes that are still down: {self._names(tuple(sorted(self.down)))}")
            self._runtime.start(sorted(self.down))
            for node in self.down:
                self._healed(_DOWN, node)
            self.down.clear()

    def _await(self, step: StepSpec) -> None:
        if step.trigger is None:
            return
        watch = Watch(step.trigger, self._view, self._counters)

        def fired() -> bool:
            self._pump()
            return watch.look().fired

        wait_until(
            fired,
            awaited=f"the trigger {text_of(step.trigger)}",
            timeout_s=step.deadline_s,
            last_seen=lambda: watch.look().what,
        )

    def _targets(self, step: StepSpec) -> tuple[int, ...]:
        return () if step.target is None else self._view.resolve(parse_role(step.target))

    def _fire(self, index: int, step: StepSpec, nodes: tuple[int, ...]) -> None:
        fired_ns = time.time_ns()
        told = self._names(nodes)
        if step.step == "partition":
            cuts, told = self._cuts(step)
            nodes = tuple(sorted({end for cut in cuts for end in (cut.source, cut.target)}))
            self._change(index, nodes=nodes, fired_ns=fired_ns)
            self.cut = True
            effect = partition(self._runtime, cuts)
        elif step.step == "heal":
            self._change(index, fired_ns=fired_ns)
            effect = heal(self._runtime)
            self.cut = False
        elif step.step == "wait":
            effect = Effect(effect_ns=fired_ns, proof={"probe": "ok"})
        else:
            self._change(index, nodes=nodes, fired_ns=fired_ns)
            effect = _merged(nodes, [self._inject(step, node) for node in nodes])
        self._change(
            index, nodes=nodes, fired_ns=fired_ns, effect_ns=effect.effect_ns, proof=effect.proof, why=effect.why
        )
        if effect.effect_ns is not None:
            for node in nodes or (None,):
                self._healed(_undone_by(step.step), node)
        if step.name is not None:
            self._view.remember(step.name, nodes)
        self._display.note(_told(step, told, effect))

    def _inject(self, step: StepSpec, node: int) -> Effect:
        # Noted before the fault, so that a watcher never takes the death for an unasked one.
        if step.step in _DOWN:
            self.down.add(node)
        if step.step == "pause":
            self.paused.add(node)
        effect = _INJECT[step.step](self._runtime, node)
        if step.step == "start":
            self.down.discard(node)
        if step.step == "resume":
            self.paused.discard(node)
        return effect

    def _cuts(self, step: StepSpec) -> tuple[list[Cut], str]:
        """The cuts of a partition, and who is cut from whom in words."""

        def ids(roles: tuple[str, ...]) -> tuple[int, ...]:
            return tuple(sorted({node for role in roles for node in self._view.resolve(parse_role(role))}))

        if step.groups:
            groups = [ids(group) for group in step.groups]
            return sorted(between(groups)), " | ".join(map(self._names, groups))
        sources, targets = ids(step.from_), ids(step.to)
        return sorted(one_way(sources, targets)), f"{self._names(sources)} > {self._names(targets)}"

    def _healed(self, kinds: tuple[str, ...], node: int | None) -> None:
        now_ns = time.time_ns()
        for entry in list(self.entries):
            undone = entry.step in kinds and entry.fired_ns is not None and entry.healed_ns is None
            if undone and (node is None or node in entry.nodes):
                self._change(entry.index, healed_ns=now_ns)

    def _change(self, index: int, **changes: object) -> None:
        self.entries[index] = msgspec.structs.replace(self.entries[index], **changes)
        self._write()

    def _write(self) -> None:
        write_steps(self._record, self.entries)

    def _names(self, nodes: tuple[int, ...]) -> str:
        return ", ".join("clients" if node == CLIENTS else self._runtime.nodes[node].name for node in nodes)


def _told(step: StepSpec, whom: str, effect: Effect) -> str:
    what = f"{step.step} {whom}".rstrip()
    if effect.effect_ns is None:
        return f"{what}: NO PROOF that it took effect: {effect.why}"
    lost = effect.proof.get("lost_bytes")
    return f"{what}: took effect" + (f", {lost} bytes gone" if lost is not None else "")


def _parameters(step: StepSpec) -> dict[str, object]:
    """The step's own keys as in the scenario file; kind and trigger have their own places in the entry."""
    return {key: value for key, value in given(step).items() if key not in ("step", "trigger") and value != []}


def _merged(nodes: tuple[int, ...], effects: list[Effect]) -> Effect:
    """The effect on several nodes: proven only if each is; figures that add up are added up."""
    if len(effects) == 1:
        return effects[0]
    unproven = [effect.why or "no reason given" for effect in effects if effect.effect_ns is None]
    times = [effect.effect_ns for effect in effects if effect.effect_ns is not None]
    proof: dict[str, object] = {"probe": "failed" if unproven else "ok"}
    if any("lost_bytes" in effect.proof for effect in effects):
        proof["lost_bytes"] = sum(effect.proof.get("lost_bytes", 0) for effect in effects)
    proof["nodes"] = {str(node): effect.proof for node, effect in zip(nodes, effects, strict=True)}
    return Effect(effect_ns=None if unproven else max(times), proof=proof, why="; ".join(unproven) or None)
