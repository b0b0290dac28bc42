"""A model of the cluster while a schedule is drawn.

It knows which nodes are up, cut off, or in the ISR. It keeps two kinds of knowledge apart:

- What the steps alone decide is certain: a process that was killed is down. The validity of a schedule depends on
  this alone.
- Leader, ISR and ELR are a prediction by the specification (`harness.random.replication`). It only guides which
  broker to hit and what to wait for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from analysis.spec import Partition
from ebbtide.scenario.words import Role
from harness.random.replication import Replication

CONTROLLER = 0
"""The node id that stands for all controllers."""
CLIENTS = -1
"""The node id that stands for all clients."""

OUTAGE_MAX_S = 25.0
"""How long brokers can be without a controller: a starting broker gives up after 60 s."""


@dataclass
class Broker:
    """One broker. `unsure`: the steps do not say whether its process runs."""

    process: Literal["up", "down", "paused", "unsure"] = "up"
    sick: Literal["full", "dead", "slow"] | None = None
    """The state of its volume; on a full or dead volume its process can end at any moment."""
    frozen: bool = False
    """Its volume was frozen since it started, which writes everything back: a power loss would prove nothing."""
    joined: bool = True
    """The process that runs, or ran last, had certainly been unfenced."""
    fencing: bool = False
    """The broker is down, and the record that fences it is certain to come."""
    returning: bool = False
    """The broker was started after it was fenced: the next record that unfences it is of this process."""


@dataclass
class Voters:
    """The controllers of a dynamic quorum. Kafka may refuse each change, so that few are certain to vote or not to.

    `likely` is a guess: who votes if Kafka made every change. `most` is how many can vote at most.
    """

    controllers: frozenset[int]
    sure: set[int]
    observers: set[int]
    likely: set[int]
    most: int


@dataclass
class World:
    """The cluster after the steps so far."""

    brokers: dict[int, Broker]
    replication: Replication
    without: frozenset[str] = frozenset()
    """Kinds of step not to draw."""
    spare_topic: bool = True
    has_added_partitions: bool = False
    """Whether a step gave the topic more partitions. No later step names these."""
    deleted_from: set[str] = field(default_factory=set)
    """Partitions whose oldest records a step deleted."""
    release: str = ""
    """The release that every node ran at first."""
    upgrade_to: str | None = None
    """The release that nodes may be moved to; None: there is none."""
    upgraded: set[int] = field(default_factory=set)
    """The nodes that run `upgrade_to`."""
    log_dirs: int = 1
    """How many log directories each broker has."""
    voters: Voters | None = None
    """Who votes in a dynamic quorum; None: the quorum is static."""
    controller: Literal["up", "down", "paused"] = "up"
    controller_step: str | None = None
    """The step whose target is the controller that is down or paused."""
    cut: set[tuple[int, int]] = field(default_factory=set)
    """Pairs (sender, receiver) whose packets are dropped."""
    slowed: bool = False
    rules: list[tuple[int, str]] = field(default_factory=list)
    """Armed wire rules: the node, and the API; `some API` for a rule that does not stop all its requests."""
    moving: bool = False
    """Whether a reassignment may be under way."""
    steps: int = 0
    used_s: float = 0.0
    """How long the steps took so far, if every soft wait lasted to its deadline."""
    outage_since_s: float | None = None

    @property
    def partitions(self) -> Mapping[str, Partition]:
        """The predicted state of each partition."""
        return self.replication.partitions

    @property
    def is_mixed(self) -> bool:
        """Whether an upgrade has begun that not every node has made."""
        return bool(self.upgraded) and not self.brokers.keys() <= self.upgraded

    @property
    def is_calm(self) -> bool:
        """Whether the controller is up and no fault delays or cuts any connection."""
        return self.controller == "up" and not self.cut and not self.rules and not self.slowed

    @property
    def is_outage_long(self) -> bool:
        """Whether the cluster has not been calm for longer than is safe."""
        return self.outage_since_s is not None and self.used_s - self.outage_since_s > OUTAGE_MAX_S

    def all_nodes(self) -> tuple[int, ...]:
        """Return the ids of all brokers, the controllers and the clients."""
        return (*self.brokers, CONTROLLER, CLIENTS)

    def is_alive(self, broker: int) -> bool:
        """Whether the controller hears the broker's heartbeats, as far as steps decide."""
        apart = (broker, CONTROLLER) in self.cut or (CONTROLLER, broker) in self.cut
        held = (broker, "BrokerHeartbeat") in self.rules
        return (
            self.brokers[broker].process == "up"
            and self.brokers[broker].sick in (None, "slow")
            and not apart
            and not held
        )

    def id_of(self, role: Role | None) -> int | None:
        """Return the id of the node that a role names.

        Returns None for all brokers and for unknown roles.
        """
        match role.kind if role is not None else "brokers":
            case "broker":
                broker = role.broker if role is not None else None
                return broker if broker in self.brokers else None
            case "controller" | "controllers" | "step":
                return CONTROLLER
            case "clients":
                return CLIENTS
        return None

    def ids_of(self, roles: Iterable[Role]) -> set[int]:
        """Return the ids of the nodes that roles name."""
        return {one for role in roles if (one := self.id_of(role)) is not None}

    def pass_time(self, seconds: float) -> None:
        """Count a step that took `seconds`, and predict how the cluster settles."""
        self.steps += 1
        self.used_s += seconds
        if self.is_calm:
            self.outage_since_s = None
        elif self.outage_since_s is None:
            self.outage_since_s = self.used_s - seconds
        if self.controller == "up":
            heard = {broker for broker in self.brokers if self.is_alive(broker)}
            self.replication.settle(heard, self._fetches)

    def _fetches(self, follower: int, leader: int) -> bool:
        """Whether a follower's fetches reach the leader, and answers the follower.

        The steps alone decide this.
        """
        cut = (follower, leader) in self.cut or (leader, follower) in self.cut
        return not cut and (follower, "Fetch") not in self.rules


def healthy_world(
    replication: Replication,
    *,
    without: frozenset[str] = frozenset(),
    release: str = "",
    upgrade_to: str | None = None,
    log_dirs: int = 1,
    voters: Voters | None = None,
) -> World:
    """Return the world of a healthy cluster."""
    return World(
        brokers={broker: Broker() for broker in sorted(replication.cluster.registered)},
        replication=replication,
        without=without,
        release=release,
        upgrade_to=upgrade_to,
        log_dirs=log_dirs,
        voters=voters,
    )
