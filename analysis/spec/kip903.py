"""KIP-903 (KAFKA-14617), Kafka 3.5: a replica with a stale broker epoch may not join the ISR.

Fetch carries the follower's broker epoch (only from metadata.version 3.5-IV1 on), the leader proposes an ISR with
these epochs, and the controller refuses one that is not the registered one. -1 passes, so that below 3.5-IV1 the
hole of KAFKA-14139 stays open.
"""

from __future__ import annotations

from analysis.spec.kraft import Kraft


class Kip903(Kraft):
    """What 3.5 changed: broker epochs in Fetch, in the leader's proposal and in the controller's check."""

    name = "kip903"
    source = "KIP-903 (KAFKA-14617); Kafka 3.5"
    checks_epochs = True


class Kip903In36(Kip903):
    """What 3.6 changed: the HW no longer waits for a caught-up follower that could not join the ISR anyway.

    The ISR shrink without a leader epoch bump (KAFKA-15021) follows metadata.version 3.6-IV0, not the release.
    """

    name = "kip903_36"
    source = "KIP-903; Kafka 3.6"
    waits_for_ineligible = False
