"""The one place where a change to a partition is put together: Kafka's PartitionChangeBuilder.

Every controller event names what it wants (a target ISR, target replicas, an election type) and the builder
completes a reassignment, derives the ELR, elects, and counts the epochs. Its order of steps is Kafka's, because
the steps see each other's results.
"""

from __future__ import annotations

from typing import NamedTuple

from analysis.spec.partition import (
    MV_LEADER_RECOVERY,
    MV_SKIPS_EPOCH_BUMP_ON_SHRINK,
    NO_LEADER,
    NOBODY,
    Brokers,
    Cluster,
    Election,
    Partition,
)

_UNCHANGED = -2
"""Kafka's NO_LEADER_CHANGE: the record does not name a leader, so that the leader epoch stays."""


class NotAssigned(Exception):
    """Kafka's IllegalArgumentException "Replica N is not assigned to this partition": the event has no effect."""


class Target(NamedTuple):
    """What an event asks of the builder; `None` keeps what the partition has.

    `live` are the brokers that may lead; `unclean` those that just registered after an unclean shutdown and may
    not enter the ELR; `elr` whether the builder is told that the feature is on; `touched` whether something that
    the specification leaves out (log directories) changes, so that a record is written in any case; `unassigned`
    are brokers that the change adds: whether they may lead cannot be asked, since it goes by their log directory.
    """

    live: Brokers
    elr: bool
    min_isr: int
    metadata_version: int
    election: Election = Election.ONLINE
    isr: Brokers | None = None
    replicas: tuple[int, ...] | None = None
    adding: Brokers | None = None
    removing: Brokers | None = None
    recovering: bool | None = None
    unclean: Brokers = NOBODY
    touched: bool = False
    unassigned: Brokers = NOBODY


class Builder:
    """The builder's rules; variants override the steps in which they differ, named as in Kafka's source."""

    use_last_known_leader: bool = True
    """Whether LastKnownElr holds the last leader (all releases) or the KIP's last known ELR members."""

    def effective_min_isr(self, partition: Partition, cluster: Cluster) -> int:
        """The controller's min ISR: the configured one, at most the length of the current replica list.

        Kafka takes the list of the topic's partition 0; a caller with more partitions caps `min_isr` itself.
        """
        return min(cluster.min_isr, len(partition.replicas))

    def target(self, partition: Partition, cluster: Cluster) -> Target:
        """The target that changes nothing: current live brokers, ONLINE election."""
        return Target(cluster.live, cluster.elr, self.effective_min_isr(partition, cluster), cluster.metadata_version)

    def build(self, partition: Partition, target: Target) -> Partition:
        """The partition after the change record, or `partition` itself if none is written."""
        isr = partition.isr if target.isr is None else target.isr
        replicas = partition.replicas if target.replicas is None else target.replicas
        adding = partition.adding if target.adding is None else target.adding
        removing = partition.removing if target.removing is None else target.removing
        if (adding or removing) and (after := self.completed(isr, replicas, adding, removing, target.min_isr)):
            isr, replicas = after
            adding = removing = NOBODY

        elr = self.provisional_elr(partition, isr, target)
        node, unclean = self.elect_leader(partition, isr, elr, replicas, target)
        leader = _UNCHANGED
        recovering = partition.recovering
        if node != partition.leader:
            if node in elr:
                isr = frozenset({node})
                elr -= isr
            leader = node
            if unclean:
                isr = frozenset({node})
                recovering = recovering or target.metadata_version >= MV_LEADER_RECOVERY
        if leader == _UNCHANGED and set(partition.replicas) - set(replicas):
            leader = partition.leader
        elected_uncleanly = unclean and leader >= 0 and node != partition.leader
        if elected_uncleanly or not target.elr:
            elr = NOBODY
        new_isr = isr if isr or target.elr else partition.isr
        if leader == _UNCHANGED and target.metadata_version < MV_SKIPS_EPOCH_BUMP_ON_SHRINK:
            shrunk_to = self.isr_that_shrank(isr, new_isr)
            if partition.isr - shrunk_to:
                leader = partition.leader
        last_known = self.remember(partition, new_isr, elr, leader, elected_uncleanly, target)
        if target.recovering is not None and target.recovering != partition.recovering:
            recovering = target.recovering

        after_change = partition._replace(
            replicas=replicas,
            isr=new_isr,
            elr=self.final_elr(elr, new_isr, replicas, target, reassigning=bool(adding or removing)),
            last_known=last_known,
            last_known_leader=self.remember_leader(partition, leader),
            adding=adding,
            removing=removing,
            recovering=recovering,
        )
        if after_change == partition and leader == _UNCHANGED and not target.touched:
            return partition
        return after_change._replace(
            leader=partition.leader if leader == _UNCHANGED else leader,
            leader_epoch=partition.leader_epoch + (leader != _UNCHANGED),
            partition_epoch=partition.partition_epoch + 1,
        )

    def elect_leader(
        self, partition: Partition, isr: Brokers, elr: Brokers, replicas: tuple[int, ...], target: Target
    ) -> tuple[int, bool]:
        """The leader to have and whether that is an unclean election; `NO_LEADER` if none can lead.

        The order is: the preferred replica (PREFERRED only), the current leader, assignment order; then the last
        known leader; then, for UNCLEAN, any live replica in assignment order. NotAssigned: the turn came to an
        unassigned member of ISR or ELR.
        """
        candidates = isr if isr else elr
        valid = candidates & target.live
        if target.election is Election.PREFERRED and replicas[0] in valid:
            return replicas[0], False
        if partition.leader in valid:
            return partition.leader, False
        for replica in replicas:
            if replica in candidates & target.unassigned:
                raise NotAssigned
            if replica in valid:
                return replica, False
        if target.elr and not isr and not elr and self.may_elect_last_known(partition, target.live):
            return partition.last_known[0], True
        if target.election is Election.UNCLEAN:
            for replica in replicas:
                if replica in target.live:
                    return replica, True
        return NO_LEADER, False

    def completed(
        self, isr: Brokers, replicas: tuple[int, ...], adding: Brokers, removing: Brokers, min_isr: int
    ) -> tuple[Brokers, tuple[int, ...]] | None:
        """The ISR and replicas after the reassignment completes with the target ISR; `None` while it cannot."""
        left = isr - removing
        kept = tuple(replica for replica in replicas if replica not in removing)
        if removing and not (left and kept):
            return None
        return (left, kept) if self.may_complete(left, kept, adding, removing, min_isr) else None

    def may_complete(
        self, isr: Brokers, replicas: tuple[int, ...], adding: Brokers, removing: Brokers, min_isr: int
    ) -> bool:
        """Whether a reassignment to `replicas` is complete with `isr`; the removed are out of both."""
        raise NotImplementedError

    def provisional_elr(self, partition: Partition, isr: Brokers, target: Target) -> Brokers:
        """KIP-966, ELR update rules 1 and 2: empty at min ISR, else all former ISR and ELR members not in the ISR.

        There is no cap, so ISR and ELR together may exceed min ISR.
        """
        if not target.elr:
            return partition.elr
        if len(isr) >= target.min_isr:
            return NOBODY
        return (partition.elr | partition.isr) - isr - target.unclean

    def final_elr(
        self, elr: Brokers, isr: Brokers, replicas: tuple[int, ...], target: Target, *, reassigning: bool
    ) -> Brokers:
        """The ELR as written; releases keep members that are no longer replicas."""
        return elr

    def isr_that_shrank(self, asked: Brokers, written: Brokers) -> Brokers:
        """The ISR that is compared with the old one to see a shrink: the one asked for, or the one written."""
        return asked

    def may_elect_last_known(self, partition: Partition, live: Brokers) -> bool:
        """Whether the last known leader may lead while ISR and ELR are empty."""
        return False

    def remember(
        self, partition: Partition, isr: Brokers, elr: Brokers, leader: int, unclean: bool, target: Target
    ) -> tuple[int, ...]:
        """The new LastKnownElr; `leader` is the record's leader field, -2 where it has none."""
        return partition.last_known

    def remember_leader(self, partition: Partition, leader: int) -> int:
        """The new LastKnownLeader, a field that no release has."""
        return NO_LEADER

    def last_known_elr(
        self, partition: Partition, isr: Brokers, elr: Brokers, unclean: bool, target: Target
    ) -> tuple[int, ...]:
        """The last known ELR members (KIP-966, Other behaviors 6), as Kafka's unused code path keeps them."""
        if not target.elr or unclean or len(isr) >= target.min_isr:
            return ()
        known = partition.elr | partition.isr | set(partition.last_known)
        return tuple(sorted(known - isr - elr))
