"""Carries the steps of one run out: finds the family of a step's kind, and remembers which nodes are broken.

`plan` resolves everything before anything is touched; a step whose roles stand for nobody never fires.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from cluster.runtime.base import Runtime
from ebbtide.kraft.image import MetadataImage
from ebbtide.scenario.roles import CLIENTS, ConfigResource, Role
from ebbtide.scenario.steps.step import StepSpec, target_of
from ebbtide.scenario.steps.table import KINDS, NEEDS_A_SOUND_VOLUME, StepKind
from ebbtide.waiting import wait_until
from faults.base import Effect, Pending, merged, unproven


class View(Protocol):
    """What families ask of the cluster's metadata. Each method raises when a role stands for nobody."""

    @property
    def image(self) -> MetadataImage:
        """The newest metadata."""

    def resolve(self, role: Role) -> tuple[int, ...]:
        """The nodes that a role stands for now."""

    def resolve_all(self, roles: Iterable[Role]) -> tuple[int, ...]:
        """The nodes of several roles, each once."""

    def resolve_one(self, role: Role) -> int:
        """The one node of a role."""

    def config_resource(self, resource: ConfigResource) -> str:
        """A config resource, its role resolved."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One step about to fire: the nodes that it acts on, what to say of it, and the act itself."""

    nodes: tuple[int, ...]
    told: str
    act: Callable[[], Effect | Pending]
    """What it did; or what it armed, which takes effect later."""
    target: tuple[int, ...] | None = None
    """Whom `step(NAME)` stands for, where the step acts on others too; None: on no others."""


class Family(NamedTuple):
    """How a family carries its kinds of step out: node by node, or by a plan of its own."""

    on_a_node: Mapping[Any, Callable[[int], Effect]] = {}
    plans: Mapping[type[StepSpec], Callable[[Any], Plan]] = {}


class Injector:
    """The books that all families of one run share, and the way from a kind of step to its family.

    `down`: nodes that a step stopped or whose death it may cause; `paused`; `troubled`: nodes whose volume is in
    trouble.
    """

    def __init__(self, runtime: Runtime, view: View, pump: Callable[[], None]) -> None:
        """`pump` is called at every look of a wait: it reads what is new and raises when a process died unasked."""
        self.runtime = runtime
        self.view = view
        self.pump = pump
        self.down: set[int] = set()
        self.paused: set[int] = set()
        self.troubled: set[int] = set()
        self._on_a_node: dict[StepKind, Callable[[int], Effect]] = {}
        self._plans: dict[type[StepSpec], Callable[[Any], Plan]] = {}

    def add(self, family: Family) -> None:
        """Have a family carry out its kinds of step."""
        self._on_a_node |= family.on_a_node
        self._plans |= family.plans

    def plan(self, step: StepSpec) -> Plan:
        """Resolve the step's roles. Raises `RoleUnresolved`."""
        return self._plans.get(type(step), self._plan_on_each)(step)

    def inject(self, kind: StepKind, node: int) -> Effect:
        """Act on one node, and keep the books on what is broken."""
        if kind in NEEDS_A_SOUND_VOLUME and (already := self.in_trouble(node)):
            return already
        one = KINDS[kind]
        # Noted before the fault, so that a watcher never takes the death for an unasked one.
        if one.takes_down or one.volume is not None:
            self.down.add(node)
        if one.takes_down:
            self.paused.discard(node)
        return self._on_a_node[kind](node)

    def on_each(self, kind: StepKind, nodes: tuple[int, ...]) -> Effect:
        """Act on several nodes, one after the other."""
        return merged(nodes, [self.inject(kind, node) for node in nodes])

    def on_target(self, step: StepSpec, act: Callable[[tuple[int, ...]], Effect]) -> Plan:
        """A plan that does `act` to the nodes of the step's target; without one, to all brokers."""
        nodes = self.view.resolve(target_of(step) or Role("brokers"))
        return Plan(nodes=nodes, told=self.names(nodes), act=lambda: act(nodes))

    def in_trouble(self, node: int) -> Effect | None:
        """Why nothing more is done to the node's volume; None: it is sound."""
        if node not in self.troubled:
            return None
        return unproven(f"the volume of {self.names([node])} is in trouble already: mend it first")

    def to_start(self) -> tuple[int, ...]:
        """Nodes that a step left down."""
        return tuple(node for node in sorted(self.down) if self.runtime.pid(node) is None)

    def names(self, nodes: Sequence[int]) -> str:
        """The nodes by name."""
        return ", ".join("clients" if node == CLIENTS else self.runtime.nodes[node].name for node in nodes)

    def wait(self, seconds: float) -> None:
        """Let so much time pass, and follow the cluster meanwhile."""
        ends = time.monotonic() + seconds

        def over() -> bool:
            self.pump()
            return time.monotonic() >= ends

        wait_until(over, awaited="the period to pass", timeout_s=seconds + 5.0)

    def _plan_on_each(self, step: StepSpec) -> Plan:
        return self.on_target(step, lambda nodes: self.on_each(step.step, nodes))
