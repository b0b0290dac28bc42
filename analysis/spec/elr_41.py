"""KIP-966, first phase, in Kafka 4.1 and 4.2: on by default, with fewer bugs.

The first bugs of the last known leader are fixed.
"""

from __future__ import annotations

from analysis.spec.builder import Target
from analysis.spec.elr_40 import Elr40
from analysis.spec.partition import NO_LEADER, Brokers, Partition


class Elr410(Elr40):
    """What 4.1.0 changed: the last known leader must be live (KAFKA-19522)."""

    name = "elr_410"
    source = "KAFKA-19522; Kafka 4.1.0"

    def may_elect_last_known(self, partition: Partition, live: Brokers) -> bool:
        """Return whether exactly one leader is remembered and it is live."""
        return super().may_elect_last_known(partition, live) and partition.last_known[0] in live


class Elr41(Elr410):
    """What 4.1.1 changed: the partition remembers every leader that it loses.

    See apache/kafka#20629 and #20655.
    """

    name = "elr_41"
    source = "apache/kafka#20629, #20655; Kafka 4.1.1 to 4.2"

    def remember(
        self, partition: Partition, isr: Brokers, elr: Brokers, leader: int, unclean: bool, target: Target
    ) -> tuple[int, ...]:
        """Remember a lost leader if none is remembered; forget it with an election."""
        if not self.use_last_known_leader:
            return self.last_known_elr(partition, isr, elr, unclean, target)
        if not target.elr:
            return partition.last_known
        if leader == NO_LEADER and not partition.last_known:
            return (partition.leader,)
        return () if leader >= 0 else partition.last_known
