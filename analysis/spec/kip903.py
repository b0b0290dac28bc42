"""KIP-903 (KAFKA-14617), Kafka 3.5: a stale broker epoch may not join the ISR.

Fetch carries the follower's broker epoch, but only from metadata.version 3.5-IV1 on. The leader
proposes an ISR with these epochs, and the controller refuses an epoch that is not the registered
one. -1 passes, so below 3.5-IV1 the hole of KAFKA-14139 stays open.
"""

from __future__ import annotations

from analysis.spec.kraft import Kraft


class Kip903(Kraft):
    """What 3.5 changed: broker epochs in Fetch, in AlterPartition and in its check."""

    name = "kip903"
    source = "KIP-903 (KAFKA-14617); Kafka 3.5"
    checks_epochs = True


class Kip903In36(Kip903):
    """What 3.6 changed: the HW waits only for followers that may join the ISR.

    Up to 3.5 it waits for every caught-up follower. The ISR shrink without a leader epoch bump
    (KAFKA-15021) follows metadata.version 3.6-IV0, not the release.
    """

    name = "kip903_36"
    source = "KIP-903; Kafka 3.6"
    waits_for_ineligible = False
