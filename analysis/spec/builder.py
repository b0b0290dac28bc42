"""Builds every change of a partition, as Kafka's PartitionChangeBuilder does.

Every controller event names what it wants: a target ISR, target replicas, an election type. The
builder then completes a reassignment, derives the ELR, elects, and counts the epochs. Its order of
steps is Kafka's, because each step sees the results of the steps before.
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
"""Kafka's NO_LEADER_CHANGE: the record names no leader, so the leader epoch stays."""


class NotAssigned(Exception):
    """Kafka's IllegalArgumentException "Replica N is not assigned to this partition".

    The event then has no effect.
    """


class Target(NamedTuple):
    """What an event asks of the builder; `None` keeps what the partition has.

    - `live`: the brokers that may lead.
    - `unclean`: brokers that just registered after an unclean shutdown and may not enter the ELR.
    - `elr`: whether the builder sees the ELR feature as on.
    - `touched`: whether something outside the specification (log directories) changes, so that a
      record is written in any case.
    - `unassigned`: brokers that the change adds. Whether they may lead is undefined, because it
      depends on their log directory.
    - `elects_last_leader`: whether KIP-966's LastKnownLeader may lead (its text only).
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
    elects_last_leader: bool = False


class Builder:
    """The builder's rules; variants override the steps in which they differ.

    The steps are named as in Kafka's source.
    """

    use_last_known_leader: bool = True
    """Whether LastKnownElr holds the last leader (all releases).

    If not, it holds the KIP's last known ELR members.
    """
    unclean_election_empties_elr: bool = True
    """Whether nobody is in the ELR after an unclean election (all releases)."""

    def effective_min_isr(self, partition: Partition, cluster: Cluster) -> int:
        """Return the controller's min ISR: the configured one, at most the replica count.

        Kafka counts the replicas of the topic's partition 0; a caller with more partitions caps
        `min_isr` itself.
        """
        return min(cluster.min_isr, len(partition.replicas))

    def target(self, partition: Partition, cluster: Cluster) -> Target:
        """Return the target that changes nothing: current live brokers, ONLINE election."""
        return Target(cluster.live, cluster.elr, self.effective_min_isr(partition, cluster), cluster.metadata_version)

    def build(self, partition: Partition, target: Target) -> Partition:
        """Return the partition after the change record, or `partition` if none is written."""
        isr = partition.isr if target.isr is None else target.isr
        replicas = partition.replicas if target.replicas is None else target.replicas
        adding = partition.adding if target.adding is None else target.adding
        removing = partition.removing if target.removing is None else target.removing
        if (adding or removing) and (
            after := self.completed_reassignment(isr, replicas, adding, removing, target.min_isr)
        ):
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
        if (elected_uncleanly and self.unclean_election_empties_elr) or not target.elr:
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
        """Return the new leader, and whether its election is unclean.

        `NO_LEADER`: none can lead. The order is: the preferred replica (PREFERRED only), the
        current leader, assignment order; then the last known leader; then, for UNCLEAN, any live
        replica in assignment order. Raises NotAssigned when an unassigned member of ISR or ELR
        comes next.
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

    def completed_reassignment(
        self, isr: Brokers, replicas: tuple[int, ...], adding: Brokers, removing: Brokers, min_isr: int
    ) -> tuple[Brokers, tuple[int, ...]] | None:
        """Return ISR and replicas after the reassignment; `None` while it cannot complete."""
        left = isr - removing
        kept = tuple(replica for replica in replicas if replica not in removing)
        if removing and not (left and kept):
            return None
        return (left, kept) if self.may_complete(left, kept, adding, removing, min_isr) else None

    def may_complete(
        self, isr: Brokers, replicas: tuple[int, ...], adding: Brokers, removing: Brokers, min_isr: int
    ) -> bool:
        """Return whether a reassignment to `replicas` is complete with `isr`.

        The removed replicas are in neither.
        """
        raise NotImplementedError

    def provisional_elr(self, partition: Partition, isr: Brokers, target: Target) -> Brokers:
        """KIP-966, ELR update rules 1 and 2: return the ELR before the final step.

        It is empty at min ISR, else it has all former ISR and ELR members that are not in the ISR.
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
        """Return the ELR as written; releases keep members that are no longer replicas."""
        return elr

    def isr_that_shrank(self, asked: Brokers, written: Brokers) -> Brokers:
        """Return the ISR that is compared with the old one to find a shrink.

        It is the ISR that was asked for, or the ISR that is written.
        """
        return asked

    def may_elect_last_known(self, partition: Partition, live: Brokers) -> bool:
        """Return whether the last known leader may lead while ISR and ELR are empty."""
        return False

    def remember(
        self, partition: Partition, isr: Brokers, elr: Brokers, leader: int, unclean: bool, target: Target
    ) -> tuple[int, ...]:
        """Return the new LastKnownElr.

        `leader` is the record's leader field, -2 where it has none.
        """
        return partition.last_known

    def remember_leader(self, partition: Partition, leader: int) -> int:
        """Return the new LastKnownLeader, a field that no release has."""
        return NO_LEADER

    def last_known_elr(
        self, partition: Partition, isr: Brokers, elr: Brokers, unclean: bool, target: Target
    ) -> tuple[int, ...]:
        """KIP-966, Other behaviors 6: return the last known ELR members.

        They are kept as Kafka's unused code path keeps them.
        """
        if not target.elr or unclean or len(isr) >= target.min_isr:
            return ()
        known = partition.elr | partition.isr | set(partition.last_known)
        return tuple(sorted(known - isr - elr))
