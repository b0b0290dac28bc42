"""4.3 with the rule of 3.8 to 4.2: a reassignment waits until all its targets are in the ISR."""

from __future__ import annotations

from analysis.spec.elr_43 import Elr43
from analysis.spec.partition import Brokers


class WaitForTargets(Elr43):
    """Changes one rule: when a reassignment is complete."""

    def may_complete(
        self, isr: Brokers, replicas: tuple[int, ...], adding: Brokers, removing: Brokers, min_isr: int
    ) -> bool:
        """Return whether all replicas of the final list are in the ISR."""
        return isr.issuperset(replicas)
