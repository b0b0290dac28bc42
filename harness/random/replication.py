"""Predicts leader, ISR and ELR of each partition while a schedule is drawn.

The prediction follows the specification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

from analysis.spec import AlterPartition, Cluster, Outcome, Partition, Protocol, cluster_for, protocol_for
from analysis.spec.partition import NO_EPOCH, NO_LEADER, UncleanElection
from analysis.spec.variants import VARIANTS, release_of
from ebbtide.errors import UsageError
from ebbtide.releases.known_releases import KNOWN

_NEWEST = KNOWN[-1].variant
"""The variant for releases that the specification does not know."""


@dataclass
class Replication:
    """The controller's predicted state of each partition after each step.

    The prediction assumes that every step had time to take full effect. The caller guesses which brokers the
    controller hears and which fetch. `protocol`, the variant of the release, decides what the controller does
    then.
    """

    protocol: Protocol
    cluster: Cluster
    partitions: dict[str, Partition]
    ended: dict[int, bool] = field(default_factory=dict)
    """Brokers whose process ended since they last registered, and whether it was stopped cleanly."""

    def apply_to_all(self, event: Callable[[Partition, Cluster], Outcome]) -> None:
        """Apply an event of the cluster to every partition."""
        before = self.cluster
        for name in self.partitions:
            after = event(self.partitions[name], before)
            self.partitions[name], self.cluster = after.partition, after.cluster

    def apply_to(self, name: str, event: Callable[[Partition, Cluster], Outcome]) -> None:
        """Apply an event to one partition, unless the controller refuses it."""
        self.partitions[name] = event(self.partitions[name], self.cluster).partition

    def settle(self, heard: Set[int], fetches: Callable[[int, int], bool]) -> None:
        """Let sessions expire, brokers come back and leaders request new ISRs.

        A leader requests the replicas that fetch from it. `heard`: the brokers whose heartbeats arrive.
        `fetches(follower, leader)`: whether the follower's fetches reach the leader.
        """
        for broker in sorted(self.cluster.unfenced):
            if broker not in heard or broker in self.ended:
                self._fence(broker)
        for broker in sorted(heard - self.cluster.unfenced):
            if broker in self.ended:
                self._register(broker, clean=self.ended.pop(broker))
            self._unfence(broker)
        for name, partition in self.partitions.items():
            self.apply_to(name, self._leader_request(partition, heard, fetches))

    def _fence(self, broker: int) -> None:
        self.apply_to_all(lambda partition, cluster: self.protocol.fence(partition, cluster, broker))

    def _unfence(self, broker: int) -> None:
        self.apply_to_all(lambda partition, cluster: self.protocol.unfence(partition, cluster, broker))

    def _register(self, broker: int, *, clean: bool) -> None:
        epoch = max(self.cluster.epochs) + 1
        previous = self.cluster.epoch(broker) if clean else NO_EPOCH
        self.apply_to_all(
            lambda partition, cluster: self.protocol.register(
                partition, cluster, broker, epoch=epoch, previous_epoch=previous
            )
        )

    def _leader_request(
        self, partition: Partition, heard: Set[int], fetches: Callable[[int, int], bool]
    ) -> Callable[[Partition, Cluster], Outcome]:
        """Return the leader's AlterPartition request; no change if none is due.

        It requests the replicas that fetch from the leader.
        """
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
    """Return the replicas that remain when the reassignment under way is complete."""
    return tuple(one for one in partition.replicas if one not in partition.removing)


def healthy_replication(
    assignments: Mapping[str, tuple[int, ...]],
    *,
    brokers: int,
    kafka: str,
    features: Mapping[str, int],
    min_isr: int,
    unclean: bool = False,
) -> Replication:
    """Return a healthy cluster of a release.

    `assignments`: the replicas of each partition, preferred leader first.
    """
    try:
        protocol = protocol_for(kafka, features)
    except UsageError:
        protocol, kafka, features = VARIANTS[_NEWEST], release_of(_NEWEST), {}
    cluster = cluster_for(
        kafka, features, tuple(range(1, brokers + 1)), min_isr=min_isr, unclean=UncleanElection(unclean)
    )
    partitions = {
        name: Partition(replicas=replicas, isr=frozenset(replicas), leader=replicas[0])
        for name, replicas in assignments.items()
    }
    return Replication(protocol, cluster._replace(topic_min_isr=True), partitions)
