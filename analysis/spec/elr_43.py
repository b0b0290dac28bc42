"""KIP-966, first phase, as in Kafka 4.3 and 4.4: reassignments complete with an unhealthy replica that stays."""

from __future__ import annotations

from analysis.spec.elr_41 import Elr41
from analysis.spec.partition import Brokers
from analysis.spec.strict_min_isr import StrictMinIsrIn38


class Elr43(Elr41):
    """What 4.3 changed: the completion rule (KAFKA-19975), and the ELR outlives AssignReplicasToDirs (#20716)."""

    name = "elr_43"
    source = "KAFKA-19975, apache/kafka#20716; Kafka 4.3, 4.4"
    assigning_knows_elr = True

    def may_complete(
        self, isr: Brokers, replicas: tuple[int, ...], adding: Brokers, removing: Brokers, min_isr: int
    ) -> bool:
        """All added replicas are in the ISR, and where the partition gets fewer replicas, all of them are."""
        if adding - isr:
            return False
        fewer = len(adding) < len(removing)
        return not fewer or StrictMinIsrIn38.may_complete(self, isr, replicas, adding, removing, min_isr)
