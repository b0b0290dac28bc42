"""A cluster in miniature, while a schedule is drawn: who is up, cut off, in the ISR.

Two kinds of knowledge, kept apart. What the steps alone decide (a process that was killed is down) is certain, and
the validity of a schedule rests on nothing else. Who leads and stands in the ISR is a guess, by the plain rules of
KIP-966 and with all the time in the world; it only says whom to hit and what is worth waiting for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ebbtide.scenario.roles import Role, parse_role

CONTROLLER = 0
"""Stands for the controllers, as one."""
CLIENTS = -1

OUTAGE_MAX_S = 25.0
"""How long brokers may be without a controller: one that is starting gives up after 60 s."""


@dataclass
class Broker:
    """One broker. `unsure`: nobody can tell from the steps whether its process runs."""

    process: Literal["up", "down", "paused", "unsure"] = "up"
    sick: Literal["full", "dead", "slow"] | None = None
    """What ails its volume; unless it is only slow, its process may end at any moment."""
    joined: bool = True
    """The process that runs, or ran last, surely had been unfenced."""
    fencing: bool = False
    """It is down, and the record that fences it must come."""
    returning: bool = False
    """It was started after that record: the next one that unfences it is its own."""


@dataclass
class LikelyPartition:
    """A partition as it probably is."""

    replicas: list[int]
    leader: int | None
    isr: list[int]
    elr: set[int] = field(default_factory=set)


@dataclass
class World:
    """What the steps so far have made of the cluster."""

    brokers: dict[int, Broker]
    partitions: dict[str, LikelyPartition]
    min_isr: int
    elr: bool
    level_changes: bool = False
    """The release can turn the ELR on and off."""
    without: frozenset[str] = frozenset()
    """Kinds of step that are not to be used."""
    spare_topic: bool = True
    controller: Literal["up", "down", "paused"] = "up"
    controller_step: str | None = None
    """The step whose target is the controller that is down or paused."""
    cut: set[tuple[int, int]] = field(default_factory=set)
    """Pairs between which nothing passes, one way each."""
    slowed: bool = False
    rules: list[tuple[int, str]] = field(default_factory=list)
    """Rules on the wire: at whom, and for which API."""
    moving: bool = False
    """A reassignment may be under way."""
    steps: int = 0
    used_s: float = 0.0
    """How long the steps took so far, if every wait that may be in vain was."""
    outage_since_s: float | None = None

    @property
    def calm(self) -> bool:
        """Nothing stands between a broker and the controller: what they are to tell each other, they do."""
        return self.controller == "up" and not self.cut and not self.rules and not self.slowed

    @property
    def weary(self) -> bool:
        """The brokers have been without a controller, or some of their connections, for as long as is safe."""
        return self.outage_since_s is not None and self.used_s - self.outage_since_s > OUTAGE_MAX_S

    def everyone(self) -> tuple[int, ...]:
        """Brokers, controllers and clients."""
        return (*self.brokers, CONTROLLER, CLIENTS)

    def alive(self, broker: int) -> bool:
        """Whether the controller hears it, by what the steps say."""
        apart = (broker, CONTROLLER) in self.cut or (CONTROLLER, broker) in self.cut
        held = (broker, "BrokerHeartbeat") in self.rules
        return (
            self.brokers[broker].process == "up"
            and self.brokers[broker].sick in (None, "slow")
            and not apart
            and not held
        )

    def id_of(self, role: str | None) -> int | None:
        """Whom a role of a random schedule stands for; None for all brokers, or one that no such schedule has."""
        parsed = parse_role(role) if role is not None else Role(kind="brokers")
        match parsed.kind:
            case "broker":
                broker = int(str(parsed.argument))
                return broker if broker in self.brokers else None
            case "controller" | "controllers" | "step":
                return CONTROLLER
            case "clients":
                return CLIENTS
        return None

    def ids_of(self, roles: Iterable[str]) -> set[int]:
        """Whom roles stand for."""
        return {one for role in roles if (one := self.id_of(role)) is not None}

    def pass_time(self, seconds: float) -> None:
        """Let the cluster follow, as it probably does."""
        self.steps += 1
        self.used_s += seconds
        if self.calm:
            self.outage_since_s = None
        elif self.outage_since_s is None:
            self.outage_since_s = self.used_s - seconds
        if self.controller == "up":
            for partition in self.partitions.values():
                self._follow(partition)

    def _follow(self, partition: LikelyPartition) -> None:
        alive = [one for one in partition.replicas if self.alive(one)]
        if partition.leader not in alive:
            partition.leader = None
        for gone in [one for one in partition.isr if one not in alive]:
            self._leave(partition, gone)
        if partition.leader is None:
            eligible = [one for one in alive if one in partition.isr or (self.elr and one in partition.elr)]
            if not eligible:
                return
            partition.leader = eligible[0]
            partition.elr.discard(eligible[0])
            partition.isr = [one for one in partition.isr if one in alive] or [eligible[0]]
        leader = partition.leader
        for one in alive:
            follows = one == leader or ((one, leader) not in self.cut and (leader, one) not in self.cut)
            if follows and (one, "Fetch") not in self.rules:
                partition.elr.discard(one)
                partition.isr += [] if one in partition.isr else [one]
            elif one in partition.isr:
                self._leave(partition, one)
        if len(partition.isr) >= self.min_isr:
            partition.elr.clear()

    def _leave(self, partition: LikelyPartition, broker: int) -> None:
        """Without ELR the last member of the ISR stays in it."""
        if len(partition.isr) == 1 and not self.elr:
            return
        partition.isr.remove(broker)
        if self.elr and len(partition.isr) < self.min_isr:
            partition.elr.add(broker)


def first_world(
    assignments: Mapping[str, tuple[int, ...]],
    *,
    brokers: int,
    min_isr: int,
    elr: bool,
    level_changes: bool,
    without: frozenset[str] = frozenset(),
) -> World:
    """A healthy cluster; `assignments`: the replicas of each partition, the preferred leader first."""
    return World(
        brokers={broker: Broker() for broker in range(1, brokers + 1)},
        partitions={
            name: LikelyPartition(replicas=list(replicas), leader=replicas[0], isr=list(replicas))
            for name, replicas in assignments.items()
        },
        min_isr=min_isr,
        elr=elr,
        level_changes=level_changes,
        without=without,
    )
