"""KIP-966 as its text has it, with the unclean recovery that no release ships.

Differences to the shipped first phase (Kafka 4.3 and 4.4):
- LastKnownElr and LastKnownLeader are two fields.
- The unclean recovery, which asks replicas for their logs, replaces unclean elections.
- An unclean election keeps ELR and LastKnownElr until the ISR is at min ISR.
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
from analysis.spec.unclean_recovery import RecoveryChoice, choose_leader


class Kip966(Elr43):
    """The KIP with the table of its revision.

    `Cluster.recovery_manager` is unclean.recovery.manager.enabled. `Cluster.unclean` is
    unclean.leader.election.enable: DISABLED is Balanced, ENABLED Proactive (first Aggressive),
    MANUAL Manual (first None).

    | ISR and ELR empty | without the manager | with the manager |
    |---|---|---|
    | Manual | last known leader, once unfenced | an operator elects |
    | false, Balanced | last known leader, once unfenced | recovery with all of LastKnownElr |
    | true, Proactive | any unfenced replica | recovery with any replica |

    The text has no rule for the ELR at an unclean election. So its rules for every other change
    hold: ELR update 2 keeps the members, and Other behaviors 6a the LastKnownElr.
    """

    name = "kip966"
    source = "KIP-966 text, Unclean recovery (KAFKA-15580, in no release)"
    use_last_known_leader = False
    unclean_election_empties_elr = False
    recovers = True

    def automatic_election(self, cluster: Cluster) -> Election:
        """KIP-966, Public-Facing Changes 4: unclean recovery replaces unclean elections."""
        return Election.ONLINE if cluster.recovery_manager else super().automatic_election(cluster)

    def target(self, partition: Partition, cluster: Cluster) -> Target:
        """KIP-966, Delivery plan: without the recovery manager, the last known leader may lead."""
        return super().target(partition, cluster)._replace(elects_last_leader=not cluster.recovery_manager)

    def elect_leader(
        self, partition: Partition, isr: Brokers, elr: Brokers, replicas: tuple[int, ...], target: Target
    ) -> tuple[int, bool]:
        """KIP-966, Leader election and Delivery plan: return the leader, and if it is unclean.

        Without ISR and ELR, the last known leader leads once it is unfenced, if the target says so.
        """
        node, unclean = super().elect_leader(partition, isr, elr, replicas, target)
        nobody = node == NO_LEADER and not isr and not elr
        if nobody and target.elects_last_leader and partition.last_known_leader in target.live:
            return partition.last_known_leader, True
        return node, unclean

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

        They are remembered until the ISR is at min ISR, also by an unclean election.
        """
        return self.last_known_elr(partition, isr, elr, False, target)

    def remember_leader(self, partition: Partition, leader: int) -> int:
        """KIP-966, Other behaviors 7: remember a lost leader until another is elected."""
        if leader == NO_LEADER and partition.leader != NO_LEADER:
            return partition.leader
        return NO_LEADER if leader >= 0 else partition.last_known_leader

    def is_recovery_due(self, partition: Partition, cluster: Cluster) -> bool:
        """KIP-966, Unclean recovery, rules 3 and 4: whether to start asking for logs."""
        if partition.leader != NO_LEADER or not cluster.recovery_manager:
            return False
        if (partition.isr | partition.elr) & cluster.live or cluster.unclean is UncleanElection.MANUAL:
            return False
        if cluster.unclean is UncleanElection.ENABLED:
            return True
        if partition.isr or partition.elr:
            return False
        return cluster.live >= set(partition.last_known) & set(partition.replicas)

    def choose(self, partition: Partition, cluster: Cluster, replies: Sequence[LogInfo]) -> RecoveryChoice:
        """Return the elected leader, or the replicas to wait for; see `analysis.spec.unclean_recovery`."""
        return choose_leader(
            cluster.unclean,
            partition.replicas,
            partition.last_known,
            replies,
            broker_epochs={broker: cluster.epoch(broker) for broker in cluster.live},
            leader_epoch=partition.leader_epoch,
            last_known_first=self.last_known_first,
        )

    def recover(self, partition: Partition, cluster: Cluster, replies: Sequence[LogInfo]) -> Outcome:
        """Elect the longest log among `replies`: highest last epoch, then highest LEO.

        The caller applies the timeout of 5 min, and forgets all replies when the controller
        changes.
        """
        due = self.is_recovery_due(partition, cluster)
        leader = self.choose(partition, cluster, replies).leader if due else NO_LEADER
        if leader == NO_LEADER:
            return Outcome(partition, cluster, "ELIGIBLE_LEADERS_NOT_AVAILABLE")
        return Outcome(self._with_leader(partition, cluster, leader), cluster)

    def designate(self, partition: Partition, cluster: Cluster, broker: int) -> Outcome:
        """ElectLeaders v3 with DesiredLeaders: an operator names the new leader.

        The partition has no leader before.
        """
        if partition.leader != NO_LEADER:
            return Outcome(partition, cluster, "ELECTION_NOT_NEEDED")
        if broker not in partition.replicas or broker not in cluster.live:
            return Outcome(partition, cluster, "ELIGIBLE_LEADERS_NOT_AVAILABLE")
        return Outcome(self._with_leader(partition, cluster, broker), cluster)

    def _with_leader(self, partition: Partition, cluster: Cluster, broker: int) -> Partition:
        """Return the partition after an unclean election of `broker`.

        ELR and LastKnownElr follow the rules of every change: the ELR update, and Other behaviors 6.
        """
        target, isr = self.target(partition, cluster), frozenset({broker})
        elr = self.provisional_elr(partition, isr, target) if cluster.elr else NOBODY
        return partition._replace(
            leader=broker,
            isr=isr,
            elr=elr,
            last_known=self.remember(partition, isr, elr, broker, True, target),
            last_known_leader=NO_LEADER,
            recovering=True,
            leader_epoch=partition.leader_epoch + 1,
            partition_epoch=partition.partition_epoch + 1,
        )
