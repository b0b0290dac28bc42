"""The controller's state of one partition, and what it knows of the brokers.

A set of brokers is a frozenset of broker ids. A list whose order means something is a tuple. The
explorer's own form, bit masks and packed integers, is in `analysis.spec.model`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

NO_LEADER = -1
NO_EPOCH = -1
"""A broker epoch that is not known or not sent: the checks of KIP-903 let it pass."""
NO_ERROR = "NONE"

MV_SKIPS_EPOCH_BUMP_ON_SHRINK = 12
"""metadata.version 3.6-IV0: an ISR shrink keeps the leader epoch (KAFKA-15021)."""
MV_FETCH_CARRIES_BROKER_EPOCH = 10
"""metadata.version 3.5-IV1: Fetch v15 carries the follower's broker epoch (KIP-903)."""
MV_ELR = 23
"""metadata.version 4.0-IV1: eligible.leader.replicas.version may be 1 (KIP-966)."""
MV_LEADER_RECOVERY = 3
"""metadata.version 3.2-IV0: an unclean election is recorded as RECOVERING (KIP-704)."""


Brokers = frozenset[int]
"""A set of broker ids."""
NOBODY: Brokers = frozenset()


class Partition(NamedTuple):
    """One partition as the controller records it (PartitionRegistration).

    `last_known` is the LastKnownElr field: in releases at most the last leader, in the KIP's text the brokers
    that an unclean shutdown took out of the ELR. `last_known_leader` is the KIP's field of that name, which no
    release has: there it stays `NO_LEADER`. `recovering` is LeaderRecoveryState (KIP-704).
    """

    replicas: tuple[int, ...]
    isr: Brokers
    elr: Brokers = NOBODY
    last_known: tuple[int, ...] = ()
    adding: Brokers = NOBODY
    removing: Brokers = NOBODY
    leader: int = NO_LEADER
    leader_epoch: int = 0
    partition_epoch: int = 0
    recovering: bool = False
    last_known_leader: int = NO_LEADER


class UncleanElection(IntEnum):
    """`unclean.leader.election.enable`: false, true, or (KIP-966's text only) Manual.

    KIP-966 reads false as Balanced and true as Proactive (first Aggressive); releases read Manual as false.
    """

    DISABLED = 0
    ENABLED = 1
    MANUAL = 2


class Cluster(NamedTuple):
    """What a decision on a partition depends on besides the partition.

    Sets of brokers: `registered`; `unfenced`; `shutting_down`, in controlled shutdown; `offline`, whose log
    directory of this partition is offline. `epochs[id]` is the broker epoch of the stored registration,
    `NO_EPOCH` if there is none. `min_isr` is the topic's configured min.insync.replicas, `topic_min_isr`
    whether the topic overrides the cluster's. `elr` is whether eligible.leader.replicas.version is 1.
    `metadata_version` is the finalised feature level. `recovery_manager` is
    unclean.recovery.manager.enabled, which only KIP-966's text has.
    """

    registered: Brokers
    unfenced: Brokers
    shutting_down: Brokers = NOBODY
    offline: Brokers = NOBODY
    epochs: tuple[int, ...] = ()
    min_isr: int = 1
    topic_min_isr: bool = False
    elr: bool = False
    unclean: UncleanElection = UncleanElection.DISABLED
    metadata_version: int = 1
    recovery_manager: bool = True

    @property
    def active(self) -> Brokers:
        """Return the brokers that may be in an ISR (KIP-841).

        They are registered, unfenced, and not in controlled shutdown.
        """
        return (self.registered & self.unfenced) - self.shutting_down

    @property
    def live(self) -> Brokers:
        """Return the brokers that may lead: active, with the log directory online."""
        return (self.registered & self.unfenced) - self.shutting_down - self.offline

    def epoch(self, broker: int) -> int:
        """Return the epoch of the stored registration of `broker`, or `NO_EPOCH`."""
        return self.epochs[broker] if broker < len(self.epochs) else NO_EPOCH


class AlterPartition(NamedTuple):
    """A leader's AlterPartition request for one partition.

    `isr_epochs` holds `(broker id, broker epoch)`; the epoch is `NO_EPOCH` when the follower's Fetch carried
    none (below metadata.version 3.5-IV1) or the request is older than v3.
    """

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr_epochs: tuple[tuple[int, int], ...]
    recovering: bool = False
    broker_epoch: int = NO_EPOCH

    @property
    def isr(self) -> Brokers:
        """The ISR that the leader asks for."""
        return frozenset(broker for broker, _ in self.isr_epochs)


class LogInfo(NamedTuple):
    """A replica's answer to GetReplicaLogInfo (KIP-966, in no release).

    `last_epoch` is LastWrittenLeaderEpoch, the epoch of the last record in its log.
    `current_leader_epoch` is the partition's epoch in the replica's metadata cache.
    """

    broker: int
    broker_epoch: int
    last_epoch: int
    log_end_offset: int
    current_leader_epoch: int


class Election(IntEnum):
    """Election types of the controller (PartitionChangeBuilder.Election)."""

    PREFERRED = 0
    ONLINE = 1
    UNCLEAN = 2


class Outcome(NamedTuple):
    """What an event did: the new partition and cluster, or Kafka's error name.

    With an error, the partition and cluster are the old ones. An AlterPartition answered with
    NEW_LEADER_ELECTED is the only error that comes with a change.
    """

    partition: Partition
    cluster: Cluster
    error: str = NO_ERROR
