"""KIP-966, first phase, in Kafka 4.3 and 4.4: reassignments complete sooner.

A replica that stays may be unhealthy.
"""

from __future__ import annotations

from analysis.spec.elr_41 import Elr41
from analysis.spec.partition import Brokers
from analysis.spec.strict_min_isr import StrictMinIsrIn38


class Elr43(Elr41):
    """What 4.3 changed: the completion rule, and AssignReplicasToDirs keeps the ELR.

    See KAFKA-19975 and apache/kafka#20716.
    """

    name = "elr_43"
    source = "KAFKA-19975, apache/kafka#20716; Kafka 4.3, 4.4"
    assigning_knows_elr = True

    def may_complete(
        self, isr: Brokers, replicas: tuple[int, ...], adding: Brokers, removing: Brokers, min_isr: int
    ) -> bool:
        """Return whether all added replicas are in the ISR.

        Where the partition gets fewer replicas, all of them must be in the ISR.
        """
        if adding - isr:
            return False
        fewer = len(adding) < len(removing)
        return not fewer or StrictMinIsrIn38.may_complete(self, isr, replicas, adding, removing, min_isr)
