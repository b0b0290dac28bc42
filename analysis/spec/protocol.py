"""The controller's answer to each event, for every variant.

Each public method is one event. It is pure: it takes the partition and the cluster before the event and returns
an `Outcome` with both after it. Who may call it when, and what a broker or its disk does meanwhile, is the
caller's business (the explorer's environment, or a recorded trace).
"""

from __future__ import annotations

from analysis.spec.partition import AlterPartition, Cluster, Election, LogInfo, Outcome, Partition, UncleanElection


class Protocol:
    """One protocol variant: the rules of the controller and of the leader."""

    name: str
    """The variant's key in `analysis.spec.VARIANTS`."""
    has_elr: bool = False
    """Whether the code knows the ELR at all; `Cluster.elr` says whether the feature is on."""

    def fence(self, partition: Partition, cluster: Cluster, broker: int) -> Outcome:
        """The session of `broker` timed out."""
        raise NotImplementedError

    def unfence(self, partition: Partition, cluster: Cluster, broker: int) -> Outcome:
        """`broker` has caught up with the metadata log and is unfenced."""
        raise NotImplementedError

    def register(
        self,
        partition: Partition,
        cluster: Cluster,
        broker: int,
        *,
        epoch: int,
        previous_epoch: int,
        request_version: int = 4,
        same_incarnation: bool = False,
    ) -> Outcome:
        """`broker` registers with the broker epoch `epoch`; `previous_epoch` is from its clean-shutdown file."""
        raise NotImplementedError

    def controlled_shutdown(self, partition: Partition, cluster: Cluster, broker: int) -> Outcome:
        """`broker` asks to shut down."""
        raise NotImplementedError

    def unregister(self, partition: Partition, cluster: Cluster, broker: int) -> Outcome:
        """An operator unregisters `broker`."""
        raise NotImplementedError

    def alter_partition(self, partition: Partition, cluster: Cluster, request: AlterPartition) -> Outcome:
        """The leader asks for another ISR."""
        raise NotImplementedError

    def elect(self, partition: Partition, cluster: Cluster, election: Election) -> Outcome:
        """An operator's ElectLeaders request: PREFERRED or UNCLEAN."""
        raise NotImplementedError

    def balance(self, partition: Partition, cluster: Cluster) -> Outcome:
        """The controller's periodic preferred election."""
        raise NotImplementedError

    def sweep(self, partition: Partition, cluster: Cluster) -> Outcome:
        """The controller's periodic unclean election of leaderless partitions."""
        raise NotImplementedError

    def reassign(self, partition: Partition, cluster: Cluster, target: tuple[int, ...]) -> Outcome:
        """An operator starts a reassignment to `target`."""
        raise NotImplementedError

    def cancel_reassignment(self, partition: Partition, cluster: Cluster) -> Outcome:
        """An operator cancels the reassignment."""
        raise NotImplementedError

    def set_min_isr(self, partition: Partition, cluster: Cluster, value: int, *, topic: bool) -> Outcome:
        """min.insync.replicas is set to `value`, on the topic or as the cluster's default."""
        raise NotImplementedError

    def set_unclean(self, partition: Partition, cluster: Cluster, value: UncleanElection) -> Outcome:
        """unclean.leader.election.enable is set; nothing is elected before the next event."""
        raise NotImplementedError

    def directory_offline(self, partition: Partition, cluster: Cluster, broker: int) -> Outcome:
        """`broker` reports the partition's log directory as failed."""
        raise NotImplementedError

    def assign_directory(self, partition: Partition, cluster: Cluster, broker: int) -> Outcome:
        """`broker` reports the log directory that its replica is in (AssignReplicasToDirs)."""
        raise NotImplementedError

    def set_elr_feature(self, partition: Partition, cluster: Cluster, enabled: bool) -> Outcome:
        """eligible.leader.replicas.version is set to 1 or 0."""
        raise NotImplementedError

    def recover(self, partition: Partition, cluster: Cluster, replies: tuple[LogInfo, ...]) -> Outcome:
        """KIP-966's unclean recovery with the replies so far; UNSUPPORTED_VERSION in every release."""
        raise NotImplementedError
