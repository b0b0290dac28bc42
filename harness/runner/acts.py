"""How each kind of step is carried out: resolves its roles, injects the fault, and remembers what is broken.

`plan` resolves everything before anything is touched; a step whose roles stand for nobody never fires.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from cluster.host.links import Cut
from cluster.kafka_api.admin_requests import AdminAnswer, AdminRequest, DeleteTopic
from cluster.runtime.base import LogLoss, Runtime
from ebbtide.errors import StepImpossible
from ebbtide.kraft.image import MetadataImage
from ebbtide.scenario.model import ADMIN_KINDS, CUT_KINDS, WIRE_KINDS, StepKind, StepSpec
from ebbtide.scenario.order import DISK_TROUBLES, NEEDS_A_SOUND_VOLUME, TAKES_DOWN
from ebbtide.scenario.roles import CLIENTS, parse_role
from ebbtide.scenario.words import duration_s, rate_bytes_s
from ebbtide.waiting import WaitExpired, wait_until
from faults import admin
from faults.base import Effect, Part, composed, merged, part, unproven
from faults.disk import Trouble, power_loss, wipe_disk
from faults.network import between, flap, heal, limit, one_way, partition
from faults.process import kill, pause, resume, start, stop
from faults.wire import ACTIONS, Armed, Matter, WireFaults
from harness.runner.requests import request_of
from harness.runner.view import ClusterView, describe

INJECT: dict[StepKind, Callable[[Runtime, int], Effect]] = {
    "kill": kill,
    "stop": stop,
    "pause": pause,
    "resume": resume,
    "start": start,
    "power-loss": power_loss,
    "wipe-disk": wipe_disk,
}
_TROUBLES: dict[str, Callable[[Trouble], Effect]] = {
    "fill-disk": Trouble.fill,
    "read-only": Trouble.set_read_only,
    "fail-disk": Trouble.fail,
}


class Administer(Protocol):
    """The shape of `Workload.administer`."""

    def __call__(self, request: AdminRequest, timeout_s: float) -> AdminAnswer:
        """Kafka's answer; raises `HarnessError` when there is none."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One step about to fire: the nodes that it acts on, what to say of it, and the act itself."""

    nodes: tuple[int, ...]
    told: str
    act: Callable[[], Effect | Armed]
    """What it did; or what it armed, which takes effect later."""
    target: tuple[int, ...] | None = None
    """Whom `step(NAME)` stands for, where the step acts on others too; None: on no others."""


class Acts:
    """The acts of one run. `down`: nodes that a step stopped or whose death it may cause; `paused`; `cut`: any cut."""

    def __init__(
        self,
        runtime: Runtime,
        view: ClusterView,
        administer: Administer,
        pump: Callable[[], None],
        wire: WireFaults,
    ) -> None:
        """`pump` is called at every look of a wait: it reads what is new and raises when a process died unasked."""
        self._runtime = runtime
        self._view = view
        self._administer = administer
        self._pump = pump
        self.wire = wire
        self.down: set[int] = set()
        self.paused: set[int] = set()
        self.cut = False
        self.deleted_topics: set[str] = set()
        self._troubles: dict[int, Trouble] = {}
        self._lost: dict[int, dict[str, LogLoss]] = {}

    def plan(self, step: StepSpec) -> Plan:
        """Resolve the step's roles. Raises `RoleUnresolved`."""
        if step.step in ADMIN_KINDS:
            return self._plan_request(step)
        if step.step in CUT_KINDS:
            return self._plan_cuts(step)
        if step.step in WIRE_KINDS:
            return self._plan_rule(step)
        if step.step == "release":
            return self._plan_release(step)
        if step.step == "heal":
            return Plan(nodes=(), told="", act=self.heal)
        if step.step == "wait":
            return Plan(nodes=(), told="", act=lambda: Effect(effect_ns=time.time_ns(), proof={"probe": "ok"}))
        nodes = self._view.resolve(parse_role(step.target or "brokers"))
        act: Callable[[], Effect]
        match step.step:
            case "restart":
                act = partial(self._restart, nodes)
            case "rolling":
                act = partial(self._rolling, step, nodes)
            case "slow-disk":
                act = partial(self._slow, step, nodes)
            case _:
                act = partial(self._on_each, step.step, nodes)
        return Plan(nodes=nodes, told=self.names(nodes), act=act)

    def heal(self) -> Effect:
        """Remove every cut."""
        self.cut = False
        return heal(self._runtime)

    def inject(self, kind: StepKind, node: int) -> Effect:
        """Act on one node, and keep the books on what is broken."""
        if kind in NEEDS_A_SOUND_VOLUME and (already := self._in_trouble(node)):
            return already
        # Noted before the fault, so that a watcher never takes the death for an unasked one.
        if kind in TAKES_DOWN or kind in DISK_TROUBLES:
            self.down.add(node)
        if kind in TAKES_DOWN:
            self.paused.discard(node)
        if kind == "pause":
            self.paused.add(node)
        if kind in DISK_TROUBLES:
            return self._trouble(node, _TROUBLES[kind])
        if kind == "mend-disk":
            return self._mend(node)
        try:
            effect = INJECT[kind](self._runtime, node)
        except OSError as error:
            if kind != "start" or node not in self._troubles:
                raise
            # Before a node starts, a file is written to its volume.
            raise StepImpossible(
                f"the volume of {self.names([node])} is in trouble, so it cannot be started: mend it first",
                got=str(error),
            ) from None
        # A node on a volume in trouble may die again.
        if kind == "start" and node not in self._troubles:
            self.down.discard(node)
        if kind == "resume":
            self.paused.discard(node)
        return effect

    def troubled(self) -> tuple[int, ...]:
        """Nodes whose volume is in trouble."""
        return tuple(sorted(self._troubles))

    def to_start(self) -> tuple[int, ...]:
        """Nodes that a step left down."""
        return tuple(node for node in sorted(self.down) if self._runtime.pid(node) is None)

    def lost(self, node: int) -> dict[str, LogLoss]:
        """What each log of the node had lost when its volume was mended last."""
        return self._lost.get(node, {})

    def names(self, nodes: Sequence[int]) -> str:
        """The nodes by name."""
        return ", ".join("clients" if node == CLIENTS else self._runtime.nodes[node].name for node in nodes)

    def _on_each(self, kind: StepKind, nodes: tuple[int, ...]) -> Effect:
        return merged(nodes, [self.inject(kind, node) for node in nodes])

    def _in_trouble(self, node: int) -> Effect | None:
        if node not in self._troubles:
            return None
        return unproven(f"the volume of {self.names([node])} is in trouble already: mend it first")

    def _trouble(self, node: int, act: Callable[[Trouble], Effect]) -> Effect:
        trouble = Trouble(self._runtime, node)
        self._troubles[node] = trouble
        return act(trouble)

    def _slow(self, step: StepSpec, nodes: tuple[int, ...]) -> Effect:
        delay_s, period_s = duration_s(step.delay or ""), duration_s(step.period or "")
        act = partial(Trouble.slow, delay_s=delay_s, period_s=period_s)
        return merged(nodes, [self._in_trouble(node) or self._trouble(node, act) for node in nodes])

    def _mend(self, node: int) -> Effect:
        trouble = self._troubles.pop(node, None)
        if trouble is None:
            return unproven(f"nothing is wrong with the volume of {self.names([node])}")
        effect, self._lost[node] = trouble.mend()
        if self._runtime.pid(node) is not None:
            self.down.discard(node)
        else:
            # A frozen one was killed to mount its volume anew.
            self.paused.discard(node)
        return effect

    def _restart(self, nodes: tuple[int, ...]) -> Effect:
        """A clean stop and a start; a node is not started where its stop was not clean."""
        parts: list[Part] = []
        for node in nodes:
            parts.append(part("stop", (node,), partial(self.inject, "stop", node)))
            if parts[-1].effect.effect_ns is not None:
                parts.append(part("start", (node,), partial(self.inject, "start", node)))
        return composed(parts)

    def _rolling(self, step: StepSpec, nodes: tuple[int, ...]) -> Effect:
        """One node after the other goes down and comes back, each once the ISR of every partition is whole again."""
        down: StepKind = "stop" if step.mode == "restart" or step.mode is None else step.mode
        parts: list[Part] = []
        for node in nodes:
            parts.append(part(down, (node,), partial(self.inject, down, node)))
            if parts[-1].effect.effect_ns is None:
                break
            parts.append(part("start", (node,), partial(self.inject, "start", node)))
            try:
                self._await_whole(node, step.deadline_s)
            except WaitExpired as expired:
                return composed(parts, why=f"after {self.names([node])}: {expired}")
        return composed(parts)

    def _await_whole(self, node: int, timeout_s: float) -> None:
        def lacking() -> list[str]:
            rows = self._view.image.partitions.values()
            return [describe(row) for row in rows if row.leader < 0 or set(row.isr) != set(row.replicas)]

        def whole() -> bool:
            self._pump()
            return not lacking()

        self._runtime.wait_ready([node], timeout_s)
        wait_until(
            whole, awaited="the whole ISR", timeout_s=timeout_s, last_seen=lambda: "; ".join(lacking()), poll_s=0.05
        )

    def _plan_cuts(self, step: StepSpec) -> Plan:
        cuts, told = self._cuts(step)
        nodes = tuple(sorted({end for cut in cuts for end in (cut.source, cut.target)}))
        if step.step == "flap":
            return Plan(nodes=nodes, told=told, act=partial(self._flap, step, cuts))
        if step.step == "limit-bandwidth":
            return Plan(nodes=nodes, told=f"{step.rate} {told}", act=partial(self._limit, step, cuts))
        target = self._view.resolve(parse_role(step.target)) if step.target is not None else None
        return Plan(nodes=nodes, told=told, act=partial(self._partition, cuts), target=target)

    def _plan_rule(self, step: StepSpec) -> Plan:
        nodes = self._view.resolve(parse_role(step.target or ""))
        matter = Matter(
            action=ACTIONS[step.step],
            nodes=nodes,
            api=step.api or "",
            direction=step.direction or "request",
            peers=self._view.resolve_all(step.to),
            delay_s=duration_s(step.delay) if step.delay is not None else 0.0,
            times=step.times,
        )
        return Plan(nodes=nodes, told=f"{matter.api} {self.names(nodes)}", act=lambda: self.wire.arm(matter))

    def _plan_release(self, step: StepSpec) -> Plan:
        nodes = None if step.target is None else self._view.resolve(parse_role(step.target))
        rules = self.wire.in_force(nodes)
        ended = tuple(sorted({node for rule in rules for node in rule.matter.nodes}))
        return Plan(nodes=ended, told=self.names(ended), act=lambda: self.wire.release(rules))

    def _partition(self, cuts: Sequence[Cut]) -> Effect:
        self.cut = True
        return partition(self._runtime, cuts)

    def _limit(self, step: StepSpec, pairs: Sequence[Cut]) -> Effect:
        self.cut = True
        return limit(self._runtime, pairs, rate_bytes_s(step.rate or ""))

    def _flap(self, step: StepSpec, cuts: Sequence[Cut]) -> Effect:
        self.cut = True
        parts = flap(self._runtime, cuts, step.times or 1, duration_s(step.period or "1s"), self._wait)
        self.cut = False
        return composed(parts)

    def _wait(self, seconds: float) -> None:
        ends = time.monotonic() + seconds

        def over() -> bool:
            self._pump()
            return time.monotonic() >= ends

        wait_until(over, awaited="the period to pass", timeout_s=seconds + 5.0)

    def _cuts(self, step: StepSpec) -> tuple[list[Cut], str]:
        """The cuts of a step, and who is cut from whom in words."""

        def ids(roles: tuple[str, ...]) -> tuple[int, ...]:
            return tuple(sorted(self._view.resolve_all(roles)))

        if step.step == "isolate":
            target = ids((step.target or "",))
            others = ids(step.from_) if step.from_ else (CLIENTS, *self._runtime.nodes)
            groups = [target, tuple(sorted(set(others) - set(target)))]
        elif step.groups:
            groups = [ids(group) for group in step.groups]
        else:
            sources, targets = ids(step.from_), ids(step.to)
            return sorted(one_way(sources, targets)), f"{self.names(sources)} > {self.names(targets)}"
        return sorted(between(groups)), " | ".join(map(self.names, groups))

    def _plan_request(self, step: StepSpec) -> Plan:
        request, nodes = request_of(step, self._view)

        def look() -> MetadataImage:
            self._pump()
            return self._view.image

        def act() -> Effect:
            if isinstance(request, DeleteTopic):
                self.deleted_topics.add(request.topic)
            return admin.carry_out(
                request, ask=self._administer, look=look, expect_error=step.expect_error, timeout_s=step.deadline_s
            )

        return Plan(nodes=nodes, told=admin.told(request), act=act)
