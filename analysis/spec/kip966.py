"""KIP-966 as its text has it, with the unclean recovery that no release ships.

Differences to the shipped first phase (Kafka 4.3 and 4.4):
- LastKnownElr and LastKnownLeader are two fields.
- The unclean recovery, which asks replicas for their logs, replaces unclean elections.
- A min ISR change clears the ELR only where the ISR meets the new value.
- Reassignments respect min ISR and the final replicas.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.spec.builder import Target
from analysis.spec.elr_43 import Elr43
from analysis.spec.partition import (
    NO_LEADER,
    NOBODY,
    Brokers,
    Cluster,
    Election,
    LogInfo,
    Outcome,
    Partition,
    UncleanElection,
)
from analysis.spec.unclean_recovery import choose_leader


class Kip966(Elr43):
    """The KIP with unclean.recovery.manager.enabled=true.

    `Cluster.unclean` is unclean.recovery.strategy: DISABLED is Balanced, ENABLED Proactive (first Aggressive),
    MANUAL Manual (first None). The text does not say what becomes of the ELR and LastKnownElr when an unclean
    recovery elects: here both are emptied, since their members need not be prefixes of the new leader's log.
    """

    name = "kip966"
    source = "KIP-966 text, Unclean recovery (KAFKA-15580, in no release)"
    use_last_known_leader = False

    def automatic_election(self, cluster: Cluster) -> Election:
        """KIP-966, Public-Facing Changes 4: unclean recovery replaces unclean elections."""
        return Election.ONLINE

    def refuses_revert(self, partition: Partition, cluster: Cluster, isr: Brokers) -> bool:
        """KIP-966, Other behaviors 4b: a cancelled reassignment must leave min ISR, too."""
        original = len(partition.replicas) - len(partition.adding)
        return len(isr) < min(cluster.min_isr, original)

    def may_complete(
        self, isr: Brokers, replicas: tuple[int, ...], adding: Brokers, removing: Brokers, min_isr: int
    ) -> bool:
        """KIP-966, Other behaviors 4a: all added replicas are in the ISR, at min ISR."""
        return adding <= isr and len(isr) >= min(min_isr, len(replicas))

    def final_elr(
        self, elr: Brokers, isr: Brokers, replicas: tuple[int, ...], target: Target, *, reassigning: bool
    ) -> Brokers:
        """KIP-966, ELR invariants: return the ELR, also after an election from it.

        Removed replicas are not in it (Other behaviors 4).
        """
        if len(isr) >= target.min_isr:
            return NOBODY
        return elr if reassigning else elr & set(replicas)

    def min_isr_clears_elr(self, partition: Partition, cluster: Cluster) -> bool:
        """KIP-966, Other behaviors 2: a new min ISR <= the current ISR removes the ELR."""
        return len(partition.isr) >= self.effective_min_isr(partition, cluster)

    def remember(
        self, partition: Partition, isr: Brokers, elr: Brokers, leader: int, unclean: bool, target: Target
    ) -> tuple[int, ...]:
        """KIP-966, Other behaviors 6: remember ELR members after an unclean shutdown.

        They are remembered until the ISR is at min ISR.
        """
        return self.last_known_elr(partition, isr, elr, unclean, target)

    def remember_leader(self, partition: Partition, leader: int) -> int:
        """KIP-966, Other behaviors 7: remember a lost leader until another is elected."""
        if leader == NO_LEADER and partition.leader != NO_LEADER:
            return partition.leader
        return NO_LEADER if leader >= 0 else partition.last_known_leader

    def is_recovery_due(self, partition: Partition, cluster: Cluster) -> bool:
        """KIP-966, Unclean recovery, rules 3 and 4: whether to start asking for logs."""
        if partition.leader != NO_LEADER or (partition.isr | partition.elr) & cluster.live:
            return False
        if cluster.unclean is UncleanElection.ENABLED:
            return True
        if cluster.unclean is UncleanElection.MANUAL or partition.isr or partition.elr:
            return False
        return cluster.live.issuperset(partition.last_known)

    def recover(self, partition: Partition, cluster: Cluster, replies: Sequence[LogInfo]) -> Outcome:
        """Elect the longest log among `replies`: highest last epoch, then highest LEO.

        `analysis.spec.unclean_recovery` says which replies count, and for whom a strategy waits.
        The caller applies the timeout of 5 min.
        """
        if not self.is_recovery_due(partition, cluster):
            return Outcome(partition, cluster, "ELIGIBLE_LEADERS_NOT_AVAILABLE")
        choice = choose_leader(
            cluster.unclean,
            partition.replicas,
            partition.last_known,
            replies,
            broker_epochs={broker: cluster.epoch(broker) for broker in cluster.live},
            leader_epoch=partition.leader_epoch,
        )
        if choice.leader == NO_LEADER:
            return Outcome(partition, cluster, "ELIGIBLE_LEADERS_NOT_AVAILABLE")
        return Outcome(self._with_leader(partition, choice.leader), cluster)

    def designate(self, partition: Partition, cluster: Cluster, broker: int) -> Outcome:
        """ElectLeaders v3 with DesiredLeaders: an operator names the new leader.

        The partition has no leader before.
        """
        if partition.leader != NO_LEADER:
            return Outcome(partition, cluster, "ELECTION_NOT_NEEDED")
        if broker not in partition.replicas or broker not in cluster.live:
            return Outcome(partition, cluster, "ELIGIBLE_LEADERS_NOT_AVAILABLE")
        return Outcome(self._with_leader(partition, broker), cluster)

    def _with_leader(self, partition: Partition, broker: int) -> Partition:
        """Return the partition after an unclean election of `broker`."""
        return partition._replace(
            leader=broker,
            isr=frozenset({broker}),
            elr=NOBODY,
            last_known=(),
            last_known_leader=NO_LEADER,
            recovering=True,
            leader_epoch=partition.leader_epoch + 1,
            partition_epoch=partition.partition_epoch + 1,
        )
