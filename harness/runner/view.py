"""The state of the cluster during a run, read from the KRaft log on disk.

The logs are those of the controllers. No client is asked, so the view works under any partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ebbtide.errors import HarnessError
from ebbtide.kraft.commits import CommittedBatch, VoterSet
from ebbtide.kraft.image import MetadataImage, describe
from ebbtide.kraft.kip_elr import kip_elr
from ebbtide.kraft.quorum import QuorumLogs
from ebbtide.logs.segments import LogEnd, TopicPartition
from ebbtide.record.rows import PartitionState
from ebbtide.scenario.words import CLIENTS, ConfigResource, Role


class RoleUnresolved(HarnessError):
    """A role has no node at the moment its step fired."""


class ClusterView:
    """The newest partition and broker states, and roles resolved against them."""

    def __init__(
        self,
        logs: Mapping[int, Path],
        mirrors: Mapping[int, Path],
        brokers: tuple[int, ...],
        *,
        log_end: Callable[[int, TopicPartition], LogEnd] | None = None,
        has_dynamic_quorum: bool = False,
        log_dir: Callable[[int, TopicPartition], int | None] | None = None,
    ) -> None:
        """`logs` has the metadata log of each controller id; `mirrors` keeps read bytes.

        `log_end` reads where a partition's log ends on the volume of a broker. Without it no
        `longest-log` resolves. `log_dir` reads which log directory of a broker has a partition's replica.
        `has_dynamic_quorum`: records of the logs say who votes.
        """
        self._log_end = log_end
        self._log_dir = log_dir
        self._quorum = QuorumLogs(logs, mirrors, is_dynamic=has_dynamic_quorum)
        self._controllers = tuple(logs)
        self._brokers = brokers
        self._last_leader: dict[TopicPartition, int] = {}
        self._targets: dict[str, tuple[int, ...]] = {}

    @property
    def image(self) -> MetadataImage:
        """The state as of the last poll."""
        return self._quorum.image

    @property
    def end_offset(self) -> int:
        """Where the metadata log ended at the last poll."""
        return self._quorum.end_offset

    @property
    def committed(self) -> list[CommittedBatch]:
        """What a majority of the voters was seen to have acknowledged, oldest first."""
        return self._quorum.committed

    @property
    def committed_voters(self) -> VoterSet | None:
        """The newest voters of a dynamic quorum, if a majority of them has their record."""
        return self._quorum.committed_voters

    @property
    def brokers(self) -> tuple[int, ...]:
        """Every broker of the cluster, up or down."""
        return self._brokers

    def poll(self) -> list[PartitionState]:
        """Read what is new on each controller's disk; return the changed partitions.

        Each partition is in its newest state.
        """
        before = dict(self.image.partitions)
        changed = []
        for partition, row in self._quorum.poll().partitions.items():
            if row != before.get(partition):
                changed.append(row)
            if row.leader >= 0:
                self._last_leader[partition] = row.leader
        return changed

    def partition(self, at: TopicPartition) -> PartitionState | None:
        """The newest state of a partition; None before it exists."""
        return self.image.partitions.get(at)

    def log_dir(self, broker: int, at: TopicPartition) -> int | None:
        """Return the number of the broker's log directory that has the replica.

        None: none has it, it is being moved, or the disks cannot be read.
        """
        try:
            return None if self._log_dir is None else self._log_dir(broker, at)
        except OSError:
            return None

    def remember(self, step_name: str, nodes: tuple[int, ...]) -> None:
        """Keep the nodes that a named step acted on, for `step(NAME)`."""
        self._targets[step_name] = nodes

    def resolve(self, role: Role) -> tuple[int, ...]:
        """Return the node ids of a role now. Raises `RoleUnresolved` if it has none."""
        nodes = self._nodes(role)
        if not nodes:
            state = self.partition(role.partition.at) if role.partition is not None else None
            seen = "no such partition yet" if state is None else describe(state)
            raise RoleUnresolved(f"the role {role} stands for nobody", got=seen)
        return tuple(sorted(nodes))

    def resolve_all(self, roles: Iterable[Role]) -> tuple[int, ...]:
        """Return the node ids of several roles in their order, each id once.

        Raises `RoleUnresolved` if a role has no node.
        """
        return tuple(dict.fromkeys(node for role in roles for node in self.resolve(role)))

    def resolve_one(self, role: Role) -> int:
        """Return the node id of a role.

        Raises `RoleUnresolved` if the role has no node or several.
        """
        nodes = self.resolve(role)
        if len(nodes) != 1:
            raise RoleUnresolved(f"the role {role} stands for several nodes", got=", ".join(map(str, nodes)))
        return nodes[0]

    def config_resource(self, resource: ConfigResource) -> str:
        """Return a config resource as the metadata log names it, with roles resolved.

        A scenario names it `topic:NAME`, `broker:ROLE` or `cluster`. Raises `RoleUnresolved` if
        the role has no node or several.
        """
        return str(resource) if resource.role is None else f"broker:{self.resolve_one(resource.role)}"

    def _nodes(self, role: Role) -> tuple[int, ...]:
        match role.kind:
            case "brokers":
                return self._brokers
            case "controllers":
                return self._controllers
            case "controller" if role.controller is not None:
                return (role.controller,)
            case "controller":
                active = self.image.controller
                return () if active is None else (active,)
            case "clients":
                return (CLIENTS,)
            case "broker":
                return (int(str(role.argument)),)
            case "step":
                return self._targets.get(str(role.argument), ())
        state = self.partition(role.partition.at) if role.partition is not None else None
        if role.partition is None or state is None:
            return ()
        match role.kind:
            case "leader" | "coordinator":
                return () if state.leader < 0 else (state.leader,)
            case "followers":
                return tuple(one for one in state.replicas if one != state.leader)
            case "isr":
                return tuple(state.isr)
            case "elr":
                return tuple(state.elr)
            case "replicas":
                return tuple(state.replicas)
            case "last-known-leader":
                last = self._last_leader.get(role.partition.at)
                return () if last is None else (last,)
            case "last-known-elr":
                return tuple(kip_elr(self.image.history(), role.partition.at).last_known_elr)
            case "longest-log":
                return self._longest_log(role.partition.at, state.replicas)
        raise ValueError(f"no rule for role {role}")

    def _longest_log(self, at: TopicPartition, replicas: tuple[int, ...]) -> tuple[int, ...]:
        """Return the replica whose log ends last, alive or not.

        The highest last leader epoch counts first, then the LEO. The replica order breaks a tie.
        """
        if self._log_end is None:
            return ()
        ends: dict[int, LogEnd] = {}
        for broker in replicas:
            try:
                ends[broker] = self._log_end(broker, at)
            except OSError:
                continue
        return (max(ends, key=ends.__getitem__),) if ends else ()
