"""Carries out the steps of one run, and remembers which nodes are broken.

It finds the family of a step's kind. `plan` resolves everything before anything is touched; a step whose roles
resolve to no node never fires.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from cluster.runtime.cluster import Runtime
from ebbtide.kraft.commits import VoterSet
from ebbtide.kraft.image import MetadataImage, describe
from ebbtide.record.node_times import NodeTimes
from ebbtide.record.steps import CutSides
from ebbtide.scenario.steps.step import StepSpec, target_of
from ebbtide.scenario.steps.table import KINDS, NEEDS_A_SOUND_VOLUME, StepKind
from ebbtide.scenario.validate_order import FaultNow
from ebbtide.scenario.words import CLIENTS, ConfigResource, Role
from ebbtide.waiting import WaitExpired, wait_until
from faults.base import Effect, Part, PendingFault, carry_out_part, compose_effect, merge_effects, unproven_effect


class View(Protocol):
    """What families ask of the cluster's metadata.

    Each method raises when a role resolves to no node.
    """

    @property
    def image(self) -> MetadataImage:
        """The newest metadata."""

    @property
    def committed_voters(self) -> VoterSet | None:
        """The newest voters of a dynamic quorum, if a majority of them has their record."""

    def resolve(self, role: Role) -> tuple[int, ...]:
        """Return the nodes that a role resolves to now."""

    def resolve_all(self, roles: Iterable[Role]) -> tuple[int, ...]:
        """Return the nodes of several roles, each once."""

    def resolve_one(self, role: Role) -> int:
        """Return the only node of a role."""

    def config_resource(self, resource: ConfigResource) -> str:
        """Return a config resource, its role resolved."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One step about to fire: the nodes that it acts on, a description, and the act."""

    nodes: tuple[int, ...]
    description: str
    act: Callable[[], Effect | PendingFault]
    """Returns the effect, or what it armed, which takes effect later."""
    sides: CutSides | None = None
    """The sides between which connections are cut or limited."""
    target: tuple[int, ...] | None = None
    """The nodes that `step(NAME)` resolves to, where the step also acts on other nodes; None: it does not."""


class Family(NamedTuple):
    """How a family carries out its kinds of step: node by node, or by its own plan."""

    on_a_node: Mapping[Any, Callable[[int], Effect]] = {}
    plans: Mapping[type[StepSpec], Callable[[Any], Plan]] = {}


class Injector:
    """The state that all families of one run share, and each step's family.

    - `down`: nodes that a step stopped, or whose death it may cause.
    - `paused`: nodes that a step paused.
    - `troubled`: the fault of each node with a volume in trouble.
    """

    def __init__(self, runtime: Runtime, view: View, poll: Callable[[], None]) -> None:
        """`poll` is called repeatedly in each wait.

        It reads what is new and raises when a process died unasked.
        """
        self.runtime = runtime
        self.view = view
        self.poll = poll
        self.down: set[int] = set()
        self.paused: set[int] = set()
        self.troubled: dict[int, FaultNow] = {}
        self._on_a_node: dict[StepKind, Callable[[int], Effect]] = {}
        self._plans: dict[type[StepSpec], Callable[[Any], Plan]] = {}

    def add(self, family: Family) -> None:
        """Let a family carry out its kinds of step."""
        self._on_a_node |= family.on_a_node
        self._plans |= family.plans

    def plan(self, step: StepSpec) -> Plan:
        """Resolve the step's roles. Raises `RoleUnresolved`."""
        return self._plans.get(type(step), self.plan_on_each)(step)

    def inject(self, kind: StepKind, node: int, act: Callable[[int], Effect] | None = None) -> Effect:
        """Act on one node, by `act` if the step says more than its kind, and remember what is broken.

        The effect says when the node's process ended or started meanwhile.
        """
        if kind in NEEDS_A_SOUND_VOLUME and (already := self.refuse_if_troubled(node)):
            return already
        one = KINDS[kind]
        # Noted before the fault, so that a watcher does not report the death as unasked.
        if one.takes_down or one.volume is not None:
            self.down.add(node)
        if one.takes_down:
            self.paused.discard(node)
        before = self.runtime.process_times(node)
        effect = (act or self._on_a_node[kind])(node)
        after = self.runtime.process_times(node)
        times = NodeTimes(
            ended=after.ended if after.ended != before.ended else None,
            started=after.started if after.started != before.started else None,
        )
        return effect if times == NodeTimes() else effect.with_times({node: times})

    def inject_each(self, kind: StepKind, nodes: tuple[int, ...]) -> Effect:
        """Act on several nodes, one after the other."""
        return merge_effects(nodes, [self.inject(kind, node) for node in nodes])

    def plan_on_target(
        self, step: StepSpec, act: Callable[[tuple[int, ...]], Effect], *, part: str | None = None
    ) -> Plan:
        """Return a plan that does `act` to the nodes of the step's target, or to a `part` of each.

        Without a target it acts on all brokers.
        """
        nodes = self.view.resolve(target_of(step) or Role("brokers"))
        description = ", ".join(filter(None, (self.node_names(nodes), part)))
        return Plan(nodes=nodes, description=description, act=lambda: act(nodes))

    def refuse_if_troubled(self, node: int) -> Effect | None:
        """Return the refusal to touch a volume in trouble; None if the volume is sound."""
        if node not in self.troubled:
            return None
        return unproven_effect(f"the volume of {self.node_names([node])} is in trouble already: use mend-disk first")

    def await_whole_isr(self, node: int, timeout_s: float) -> None:
        """Wait until the node is ready, and the ISR of every partition is whole. Raises `WaitExpired`."""

        def unsettled_partitions() -> list[str]:
            rows = self.view.image.partitions.values()
            return [describe(row) for row in rows if row.leader < 0 or set(row.isr) != set(row.replicas)]

        def is_isr_full() -> bool:
            self.poll()
            return not unsettled_partitions()

        self.runtime.wait_ready([node], timeout_s, self.poll)
        wait_until(
            is_isr_full,
            awaited="the whole ISR",
            timeout_s=timeout_s,
            last_seen=lambda: "; ".join(unsettled_partitions()),
            poll_s=0.05,
        )

    def roll(
        self, nodes: Sequence[int], down: Callable[[int], Part], up: Callable[[int], Part], timeout_s: float
    ) -> Effect:
        """Take one node after the other down and up again; each waits for the whole ISR after the last one."""
        parts: list[Part] = []
        for node in nodes:
            try:
                for change in (down, up):
                    parts.append(change(node))
                    if parts[-1].effect.effect_ns is None:
                        return compose_effect(parts)
                self.await_whole_isr(node, timeout_s)
            except WaitExpired as expired:
                return compose_effect(parts, why=f"after {self.node_names([node])}: {expired}")
        return compose_effect(parts)

    def part(self, kind: StepKind, node: int) -> Part:
        """Act on one node, as a part of a step."""
        return carry_out_part(kind, (node,), lambda: self.inject(kind, node))

    def nodes_to_start(self) -> tuple[int, ...]:
        """Return the nodes that a step left down."""
        return tuple(node for node in sorted(self.down) if self.runtime.pid(node) is None)

    def node_names(self, nodes: Sequence[int]) -> str:
        """Return the nodes' names, separated by commas."""
        return ", ".join("clients" if node == CLIENTS else self.runtime.nodes[node].name for node in nodes)

    def wait(self, seconds: float) -> None:
        """Let `seconds` pass, and follow the cluster meanwhile."""
        ends = time.monotonic() + seconds

        def is_over() -> bool:
            self.poll()
            return time.monotonic() >= ends

        wait_until(is_over, awaited="the period to pass", timeout_s=seconds + 5.0)

    def plan_on_each(self, step: StepSpec) -> Plan:
        """Return a plan that carries out the step's kind on each node of its target."""
        return self.plan_on_target(step, lambda nodes: self.inject_each(step.step, nodes))
