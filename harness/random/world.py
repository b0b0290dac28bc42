"""A cluster in miniature, while a schedule is drawn: who is up, cut off, in the ISR.

Two kinds of knowledge, kept apart. What the steps alone decide (a process that was killed is down) is certain, and
the validity of a schedule rests on nothing else. Who leads and stands in the ISR is a guess, for which the
specification is asked (`harness.random.replication`); it only says whom to hit and what is worth waiting for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from analysis.spec import Partition
from ebbtide.scenario.roles import Role, parse_role
from harness.random.replication import Replication

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
class World:
    """What the steps so far have made of the cluster."""

    brokers: dict[int, Broker]
    replication: Replication
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
    def partitions(self) -> Mapping[str, Partition]:
        """The partitions as they probably are."""
        return self.replication.partitions

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
            heard = {broker for broker in self.brokers if self.alive(broker)}
            self.replication.follow(heard, self._fetches)

    def _fetches(self, follower: int, leader: int) -> bool:
        """Whether a follower's requests reach the leader and are answered, by what the steps say."""
        cut = (follower, leader) in self.cut or (leader, follower) in self.cut
        return not cut and (follower, "Fetch") not in self.rules


def first_world(replication: Replication, *, without: frozenset[str] = frozenset()) -> World:
    """A healthy cluster."""
    brokers = {broker: Broker() for broker in sorted(replication.cluster.registered)}
    return World(brokers=brokers, replication=replication, without=without)
