"""KIP-966's HW rule alone (KAFKA-15583), Kafka 3.7 to 3.9: it waits for min ISR.

The HW stays while the ISR is below min ISR. The rule has no flag. min.insync.replicas counts at
most as the number of replicas (KIP-966, Additional High Watermark advancement requirement).

The clean-shutdown file has a broker epoch. The controller of 3.8 reads from it whether a shutdown
was clean (KAFKA-15586), those of 3.7 and 3.9 do not. What follows from an unclean shutdown needs
the ELR, so these variants have nothing of it.
"""

from __future__ import annotations

from analysis.spec.kip903 import Kip903In36
from analysis.spec.partition import Brokers


class StrictMinIsr(Kip903In36):
    """What 3.7 changed: the HW rule, late Fetch requests, several log directories.

    The HW stays below min ISR, and a Fetch from before a reboot is refused.
    """

    name = "strict_min_isr"
    source = "KIP-966 HW rule (KAFKA-15583), KIP-858, KAFKA-15221; Kafka 3.7"
    strict_min_isr = True
    refuses_fetch_of_old_epoch = True
    has_log_dirs = True
    reads_clean_shutdown_file = True


class StrictMinIsrIn38(StrictMinIsr):
    """What 3.8 changed: a reassignment needs all its targets in the ISR (KAFKA-15665)."""

    name = "strict_min_isr_38"
    source = "KAFKA-15665; Kafka 3.8"

    def may_complete(
        self, isr: Brokers, replicas: tuple[int, ...], adding: Brokers, removing: Brokers, min_isr: int
    ) -> bool:
        """Return whether all replicas of the final list are in the ISR.

        Min ISR is ignored.
        """
        return isr.issuperset(replicas)

    def isr_that_shrank(self, asked: Brokers, written: Brokers) -> Brokers:
        """Below metadata.version 3.6-IV0, only a written shrink raises the leader epoch."""
        return written


class StrictMinIsrIn39(StrictMinIsrIn38):
    """What 3.9 changed: it reads unclean.leader.election.enable.

    The same incarnation keeps its broker epoch.
    """

    name = "strict_min_isr_39"
    source = "KAFKA-12670, KAFKA-16952; Kafka 3.9"
    reads_unclean_config = True
    keeps_epoch_of_same_incarnation = True
