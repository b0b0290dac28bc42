"""KRaft before KIP-903: Kafka 3.3 and 3.4, and what all later variants build on.

Fenced and shutting-down brokers are kept out of the ISR (KIP-841, KAFKA-13916), an unclean election is recorded
as RECOVERING (KIP-704, KAFKA-13587). The last ISR member stays in the ISR when it is fenced, and is elected when
it comes back, whatever it lost.
"""

from __future__ import annotations

from analysis.spec.partition import Brokers
from analysis.spec.protocol import Protocol


class Kraft(Protocol):
    """The oldest variant: no broker epochs in the ISR, and a HW at any ISR size.

    It does not read unclean.leader.election.enable.
    """

    name = "kraft"
    source = "KIP-841, KIP-704 (KAFKA-13916, KAFKA-13587); Kafka 3.3, 3.4"

    def may_complete(
        self, isr: Brokers, replicas: tuple[int, ...], adding: Brokers, removing: Brokers, min_isr: int
    ) -> bool:
        """Return whether all added replicas are in the ISR; any ISR size above 0 will do."""
        return adding <= isr
