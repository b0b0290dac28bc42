"""Who probably leads, and who stands in ISR and ELR: the specification's answers to what a schedule does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

from analysis.spec import AlterPartition, Cluster, Outcome, Partition, Protocol, cluster_for, protocol_for
from analysis.spec.explore.question import RELEASE_OF
from analysis.spec.partition import NO_EPOCH, NO_LEADER, UncleanElection
from analysis.spec.variants import VARIANTS
from ebbtide.errors import UsageError

_NEWEST = next(name for name in reversed(VARIANTS) if name != "kip966")
"""The variant for releases that the specification does not know."""


@dataclass
class Replication:
    """The controller's records as a schedule goes on, with all the time in the world after each step.

    The brokers' part is guessed: which of them the controller hears, and which fetch. What the controller makes of
    that is for `protocol`, the variant that the release runs.
    """

    protocol: Protocol
    cluster: Cluster
    partitions: dict[str, Partition]
    ended: dict[int, bool] = field(default_factory=dict)
    """Brokers whose process ended since they last registered, and whether it was stopped cleanly."""

    def everywhere(self, event: Callable[[Partition, Cluster], Outcome]) -> None:
        """An event of the cluster, which every partition sees."""
        before = self.cluster
        for name in self.partitions:
            after = event(self.partitions[name], before)
            self.partitions[name], self.cluster = after.partition, after.cluster

    def at(self, name: str, event: Callable[[Partition, Cluster], Outcome]) -> None:
        """An event of one partition; it changes nothing where the controller refuses it."""
        self.partitions[name] = event(self.partitions[name], self.cluster).partition

    def follow(self, heard: Set[int], fetches: Callable[[int, int], bool]) -> None:
        """Sessions expire, brokers come back, and leaders ask for the ISR of those that fetch.

        `heard`: the brokers whose heartbeats arrive. `fetches(follower, leader)`: whether its requests arrive.
        """
        for broker in sorted(self.cluster.unfenced):
            if broker not in heard or broker in self.ended:
                self._fence(broker)
        for broker in sorted(heard - self.cluster.unfenced):
            if broker in self.ended:
                self._register(broker, clean=self.ended.pop(broker))
            self._unfence(broker)
        for name, partition in self.partitions.items():
            self.at(name, self._asked_by_leader(partition, heard, fetches))

    def _fence(self, broker: int) -> None:
        self.everywhere(lambda partition, cluster: self.protocol.fence(partition, cluster, broker))

    def _unfence(self, broker: int) -> None:
        self.everywhere(lambda partition, cluster: self.protocol.unfence(partition, cluster, broker))

    def _register(self, broker: int, *, clean: bool) -> None:
        epoch = max(self.cluster.epochs) + 1
        previous = self.cluster.epoch(broker) if clean else NO_EPOCH
        self.everywhere(
            lambda partition, cluster: self.protocol.register(
                partition, cluster, broker, epoch=epoch, previous_epoch=previous
            )
        )

    def _asked_by_leader(
        self, partition: Partition, heard: Set[int], fetches: Callable[[int, int], bool]
    ) -> Callable[[Partition, Cluster], Outcome]:
        """What the leader asks for: the ISR of the replicas that fetch from it."""
        leader = partition.leader
        following = {one for one in partition.replicas if one in heard and fetches(one, leader)}
        isr = following | {leader}
        unfinished = partition.recovering or partition.adding or partition.removing
        if leader == NO_LEADER or (isr == partition.isr and not unfinished):
            return Outcome
        request = AlterPartition(
            leader,
            partition.leader_epoch,
            partition.partition_epoch,
            tuple((broker, self.cluster.epoch(broker)) for broker in sorted(isr)),
        )
        return lambda before, cluster: self.protocol.alter_partition(before, cluster, request)


def final_replicas(partition: Partition) -> tuple[int, ...]:
    """The replicas that a reassignment under way leaves."""
    return tuple(one for one in partition.replicas if one not in partition.removing)


def first_replication(
    assignments: Mapping[str, tuple[int, ...]],
    *,
    brokers: int,
    kafka: str,
    features: Mapping[str, int],
    min_isr: int,
    unclean: bool = False,
) -> Replication:
    """A healthy cluster of a release; `assignments`: the replicas of each partition, the preferred leader first."""
    try:
        protocol = protocol_for(kafka, features)
    except UsageError:
        protocol, kafka, features = VARIANTS[_NEWEST], RELEASE_OF[_NEWEST], {}
    cluster = cluster_for(
        kafka, features, tuple(range(1, brokers + 1)), min_isr=min_isr, unclean=UncleanElection(unclean)
    )
    partitions = {
        name: Partition(replicas=replicas, isr=frozenset(replicas), leader=replicas[0])
        for name, replicas in assignments.items()
    }
    return Replication(protocol, cluster._replace(topic_min_isr=True), partitions)
