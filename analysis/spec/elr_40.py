"""KIP-966, first phase, in Kafka 4.0: ELR, unclean shutdowns, last known leader.

All of it except the registration needs eligible.leader.replicas.version 1 (a preview here, off by
default). Three things differ from the KIP's text. LastKnownElr holds the last leader, a min ISR
change always clears the ELR, and reassignments ignore min ISR.
"""

from __future__ import annotations

from analysis.spec.builder import Target
from analysis.spec.partition import NO_LEADER, Brokers, Cluster, Partition
from analysis.spec.strict_min_isr import StrictMinIsrIn39


class Elr40(StrictMinIsrIn39):
    """What 4.0 changed.

    Its bugs are kept: the last known leader is elected even while it is fenced.
    """

    name = "elr_40"
    source = "KIP-966 phase 1 (KAFKA-15332), KAFKA-18635; Kafka 4.0"
    has_elr = True
    assigning_knows_elr = False

    def leave_isr_and_elr(self, partition: Partition, cluster: Cluster, broker: int, clean: bool) -> Partition:
        """KIP-966, Controller behaviors 4: leave ISR and ELR after an unclean shutdown.

        After a clean one, the broker leaves them as when it is fenced.
        """
        if clean or not cluster.elr:
            return self._without_broker(partition, cluster, broker)
        if broker not in partition.isr | partition.elr:
            return partition
        target = self.target(partition, cluster)._replace(
            live=cluster.live - {broker},
            isr=partition.isr - {broker},
            unclean=frozenset({broker}),
            election=self.automatic_election(cluster),
        )
        return self.build(partition, target)

    def may_elect_last_known(self, partition: Partition, live: Brokers) -> bool:
        """Return whether exactly one leader is remembered, live or not (KAFKA-19522)."""
        return self.use_last_known_leader and len(partition.last_known) == 1 and partition.last_known[0] >= 0

    def remember(
        self, partition: Partition, isr: Brokers, elr: Brokers, leader: int, unclean: bool, target: Target
    ) -> tuple[int, ...]:
        """Remember the leader when the ISR becomes empty.

        It replaces what is remembered, even if there was no leader.
        """
        if not self.use_last_known_leader:
            return self.last_known_elr(partition, isr, elr, unclean, target)
        if not target.elr:
            return partition.last_known
        if not isr and isr != partition.isr and partition.last_known != (partition.leader,):
            return (partition.leader,)
        if leader >= 0 or (partition.leader != NO_LEADER and leader != NO_LEADER):
            return ()
        return partition.last_known
