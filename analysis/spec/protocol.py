"""The controller's answer to each event, for every variant.

Each public method is one event. It is pure: it takes the partition and the cluster before the event
and returns an `Outcome` with both after it. The caller decides who may call it and when, what a
broker or its disk does meanwhile, and when sessions end. A caller is the explorer's environment, or
a recorded trace. An event happens when it is called.

What is the same in all variants is written here, after Kafka's ReplicationControlManager and
ClusterControlManager; variants differ in the class attributes and the overridable methods.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.spec.builder import Builder, NotAssigned
from analysis.spec.leader import LeaderRules
from analysis.spec.partition import (
    MV_ELR,
    MV_FETCH_CARRIES_BROKER_EPOCH,
    NO_EPOCH,
    NO_ERROR,
    NO_LEADER,
    NOBODY,
    AlterPartition,
    Brokers,
    Cluster,
    Election,
    LogInfo,
    Outcome,
    Partition,
    UncleanElection,
)
from analysis.spec.shutdown import previous_broker_epoch


class Protocol(Builder, LeaderRules):
    """One protocol variant: the rules of the controller and of the leader."""

    name: str
    """The variant's key in `analysis.spec.variants.VARIANTS`."""
    source: str
    """The KIP or JIRA that it starts with, and the releases that run it."""
    has_elr: bool = False
    """Whether the code has the ELR; `Cluster.elr` says whether the feature is on."""
    reads_unclean_config: bool = False
    """Whether unclean.leader.election.enable has an effect (KAFKA-12670)."""
    reads_clean_shutdown_file: bool = False
    """Whether a broker sends the epoch in its clean-shutdown file (KAFKA-15582)."""
    has_log_dirs: bool = False
    """Whether a broker can lose one log directory and stay up (KIP-858)."""
    assigning_knows_elr: bool = True
    """Whether assigning directories keeps the ELR (apache/kafka#20716)."""
    keeps_epoch_of_same_incarnation: bool = False
    """Whether a broker keeps its epoch when it registers again without a restart.

    See KAFKA-16952.
    """
    recovers: bool = False
    """Whether the code has KIP-966's unclean recovery, which is in no release."""
    last_known_first: bool = False
    """Whether an unclean recovery prefers LastKnownElr members; KIP-966's text does not."""

    def fence(self, partition: Partition, cluster: Cluster, broker: int) -> Outcome:
        """Fence `broker`: its session timed out.

        If it is an ELR member, it stays in the ELR: nothing is written.
        """
        after = self._without_broker(partition, cluster, broker)
        return Outcome(after, cluster._replace(unfenced=cluster.unfenced - {broker}))

    def unfence(self, partition: Partition, cluster: Cluster, broker: int) -> Outcome:
        """Unfence `broker`, which has caught up with the metadata log.

        Only a leaderless partition changes.
        """
        if broker not in cluster.registered:
            return Outcome(partition, cluster, "BROKER_ID_NOT_REGISTERED")
        now = cluster._replace(unfenced=cluster.unfenced | {broker})
        if partition.leader != NO_LEADER:
            return Outcome(partition, now)
        target = self.target(partition, now)._replace(election=self.automatic_election(cluster))
        return Outcome(self.build(partition, target), now)

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
        """Register `broker` with the broker epoch `epoch`.

        `previous_epoch` is from its clean-shutdown file. Kafka refuses the request with
        DUPLICATE_BROKER_REGISTRATION while the old session lives; the caller checks that. The new
        registration is fenced, and its directories are online.
        """
        if same_incarnation and broker in cluster.registered:
            kept = self.keeps_epoch_of_same_incarnation
            return Outcome(partition, cluster if kept else _with_epoch(cluster, broker, epoch))
        after = self.leave_isr_and_elr(
            partition, cluster, broker, self.is_clean(cluster, broker, previous_epoch, request_version)
        )
        now = _with_epoch(cluster, broker, epoch)._replace(
            registered=cluster.registered | {broker},
            unfenced=cluster.unfenced - {broker},
            shutting_down=cluster.shutting_down - {broker},
            offline=cluster.offline - {broker},
        )
        return Outcome(after, now)

    def controlled_shutdown(self, partition: Partition, cluster: Cluster, broker: int) -> Outcome:
        """Begin the controlled shutdown of `broker`: it leaves ISR and leadership at once.

        It may not return to them.
        """
        after = self._without_broker(partition, cluster, broker)
        return Outcome(after, cluster._replace(shutting_down=cluster.shutting_down | {broker}))

    def unregister(self, partition: Partition, cluster: Cluster, broker: int) -> Outcome:
        """Unregister `broker` at an operator's request.

        A broker in the ISR goes INTO the ELR, against the code's own comment.
        """
        if broker not in cluster.registered:
            return Outcome(partition, cluster, "BROKER_ID_NOT_REGISTERED")
        after = self._without_broker(partition, cluster, broker, always=self.has_elr and broker in partition.elr)
        gone = _with_epoch(cluster, broker, NO_EPOCH)
        now = gone._replace(registered=cluster.registered - {broker}, unfenced=cluster.unfenced - {broker})
        return Outcome(after, now)

    def alter_partition(self, partition: Partition, cluster: Cluster, request: AlterPartition) -> Outcome:
        """Apply the leader's request for another ISR (AlterPartition v2 and newer)."""
        if error := self.alter_partition_error(partition, cluster, request):
            return Outcome(partition, cluster, error)
        target = self.target(partition, cluster)._replace(
            election=self.automatic_election(cluster),
            isr=request.isr,
            recovering=request.recovering,
        )
        after = self.build(partition, target)
        # The only error that comes with a change: completing a reassignment moved the leader.
        moved = after.leader_epoch != partition.leader_epoch and after.leader != request.leader
        return Outcome(after, cluster, "NEW_LEADER_ELECTED") if moved else Outcome(after, cluster)

    def alter_partition_error(self, partition: Partition, cluster: Cluster, request: AlterPartition) -> str:
        """Return why the request is refused, or an empty string.

        The checks are in the order of the controller's.
        """
        isr = request.isr
        if request.broker_epoch not in (NO_EPOCH, cluster.epoch(request.leader)):
            return "STALE_BROKER_EPOCH"
        if request.leader_epoch > partition.leader_epoch or request.partition_epoch > partition.partition_epoch:
            return "NOT_CONTROLLER"
        if request.leader_epoch < partition.leader_epoch:
            return "FENCED_LEADER_EPOCH"
        if request.leader != partition.leader:
            return "INVALID_REQUEST"
        if request.partition_epoch < partition.partition_epoch:
            return "INVALID_UPDATE_VERSION"
        if isr - set(partition.replicas) or partition.leader not in isr:
            return "INVALID_REQUEST"
        if request.recovering and (len(isr) > 1 or not partition.recovering):
            return "INVALID_REQUEST"
        return "INELIGIBLE_REPLICA" if self.ineligible(cluster, request) else ""

    def ineligible(self, cluster: Cluster, request: AlterPartition) -> bool:
        """Return whether the asked ISR has a broker that may not be in an ISR.

        Decided by KIP-841, and by KIP-903 where it applies.
        """
        if request.isr - cluster.active:
            return True
        return self.checks_epochs and any(
            epoch not in (NO_EPOCH, cluster.epoch(broker)) for broker, epoch in request.isr_epochs
        )

    def elect(self, partition: Partition, cluster: Cluster, election: Election) -> Outcome:
        """Apply an operator's ElectLeaders request, PREFERRED or UNCLEAN.

        The unclean request ignores the configuration.
        """
        preferred = election is Election.PREFERRED
        if partition.leader == partition.replicas[0] if preferred else partition.leader != NO_LEADER:
            return Outcome(partition, cluster, "ELECTION_NOT_NEEDED")
        after = self.build(partition, self.target(partition, cluster)._replace(election=election))
        if after is partition:
            error = "PREFERRED_LEADER_NOT_AVAILABLE" if preferred else "ELIGIBLE_LEADERS_NOT_AVAILABLE"
            return Outcome(partition, cluster, error)
        return Outcome(after, cluster)

    def balance(self, partition: Partition, cluster: Cluster) -> Outcome:
        """Make the controller's periodic preferred election.

        auto.leader.rebalance.enable turns it on.
        """
        return self.elect(partition, cluster, Election.PREFERRED)._replace(error=NO_ERROR)

    def sweep(self, partition: Partition, cluster: Cluster) -> Outcome:
        """Make the controller's periodic unclean election of leaderless partitions."""
        if self.automatic_election(cluster) is not Election.UNCLEAN:
            return Outcome(partition, cluster)
        return self.elect(partition, cluster, Election.UNCLEAN)._replace(error=NO_ERROR)

    def reassign(self, partition: Partition, cluster: Cluster, target: tuple[int, ...]) -> Outcome:
        """Start a reassignment to `target` for an operator; it may complete at once.

        Elections are ONLINE here. UNKNOWN_SERVER_ERROR: without a leader, an ELR member that
        returns as a replica would need the log directory that it does not have yet (seen on 4.3.1:
        "Replica 1 is not assigned to this partition").
        """
        wanted, current = frozenset(target), frozenset(partition.replicas)
        if not target or len(wanted) != len(target) or wanted - cluster.registered:
            return Outcome(partition, cluster, "INVALID_REPLICA_ASSIGNMENT")
        removing, adding = current - wanted, wanted - current
        # An empty list leaves what an earlier, unfinished reassignment has in that field.
        change = self.target(partition, cluster)._replace(
            replicas=(*target, *sorted(removing)),
            removing=removing or None,
            adding=adding or None,
            unassigned=adding if self.has_log_dirs else NOBODY,
        )
        try:
            return Outcome(self.build(partition, change), cluster)
        except NotAssigned:
            return Outcome(partition, cluster, "UNKNOWN_SERVER_ERROR")

    def cancel_reassignment(self, partition: Partition, cluster: Cluster) -> Outcome:
        """Cancel the reassignment: the added replicas go, those to be removed stay."""
        if not (partition.adding or partition.removing):
            return Outcome(partition, cluster, "NO_REASSIGNMENT_IN_PROGRESS")
        replicas = tuple(broker for broker in partition.replicas if broker not in partition.adding)
        isr = partition.isr - partition.adding
        if not replicas or self.refuses_revert(partition, cluster, isr):
            return Outcome(partition, cluster, "INVALID_REPLICA_ASSIGNMENT")
        target = self.target(partition, cluster)._replace(
            election=self.automatic_election(cluster),
            isr=isr or frozenset({replicas[0]}),
            replicas=replicas,
            adding=NOBODY,
            removing=NOBODY,
        )
        return Outcome(self.build(partition, target), cluster)

    def set_min_isr(self, partition: Partition, cluster: Cluster, value: int | None, *, topic: bool) -> Outcome:
        """Set min.insync.replicas to `value`, on the topic or as the cluster's default.

        None removes the cluster's default, which is then 1; with the ELR on, that is refused.
        With the ELR on, ClearElrRecord follows: it clears ELR and LastKnownElr, raises the
        partition epoch only where something was cleared, and leaves the leader epoch.
        """
        if value is None:
            if cluster.elr:
                return Outcome(partition, cluster, "INVALID_CONFIG")
            value = 1
        if value < 1:
            return Outcome(partition, cluster, "INVALID_CONFIG")
        unchanged = topic and cluster.topic_min_isr and value == cluster.min_isr
        now = cluster
        if topic or not cluster.topic_min_isr:
            now = cluster._replace(min_isr=value, topic_min_isr=cluster.topic_min_isr or topic)
        if unchanged or not cluster.elr or not self.min_isr_clears_elr(partition, now):
            return Outcome(partition, now)
        if not (partition.elr or partition.last_known):
            return Outcome(partition, now)
        cleared = partition._replace(elr=NOBODY, last_known=(), partition_epoch=partition.partition_epoch + 1)
        return Outcome(cleared, now)

    def set_broker_min_isr(self, partition: Partition, cluster: Cluster, value: int | None) -> Outcome:
        """Set min.insync.replicas of one broker, or remove it (None).

        The controller reads no broker's value. With the ELR on, it refuses both.
        """
        refused = cluster.elr or (value is not None and value < 1)
        return Outcome(partition, cluster, "INVALID_CONFIG" if refused else NO_ERROR)

    def set_unclean(self, partition: Partition, cluster: Cluster, value: UncleanElection) -> Outcome:
        """Set unclean.leader.election.enable; nothing is elected before the next event."""
        return Outcome(partition, cluster._replace(unclean=value))

    def directory_offline(self, partition: Partition, cluster: Cluster, broker: int) -> Outcome:
        """Mark the partition's log directory on `broker` as failed.

        It is like a fence, for this partition alone.
        """
        if not self.has_log_dirs:
            return Outcome(partition, cluster, "UNSUPPORTED_VERSION")
        held = broker in partition.replicas
        after = self._without_broker(partition, cluster, broker, always=held) if held else partition
        return Outcome(after, cluster._replace(offline=cluster.offline | {broker}))

    def assign_directory(self, partition: Partition, cluster: Cluster, broker: int) -> Outcome:
        """Record the log directory of the replica on `broker` (AssignReplicasToDirs)."""
        if not self.has_log_dirs:
            return Outcome(partition, cluster, "UNSUPPORTED_VERSION")
        if broker not in partition.replicas:
            return Outcome(partition, cluster, "NOT_LEADER_OR_FOLLOWER")
        target = self.target(partition, cluster)._replace(elr=cluster.elr and self.assigning_knows_elr, touched=True)
        return Outcome(self.build(partition, target), cluster._replace(offline=cluster.offline - {broker}))

    def set_elr_feature(self, partition: Partition, cluster: Cluster, enabled: bool) -> Outcome:
        """Set eligible.leader.replicas.version to 1 or 0.

        The partition keeps its fields until it changes.
        """
        if enabled and not (self.has_elr and cluster.metadata_version >= MV_ELR):
            return Outcome(partition, cluster, "INVALID_UPDATE_VERSION")
        return Outcome(partition, cluster._replace(elr=enabled))

    def recover(self, partition: Partition, cluster: Cluster, replies: Sequence[LogInfo]) -> Outcome:
        """Run KIP-966's unclean recovery with the replies so far.

        Every release answers UNSUPPORTED_VERSION.
        """
        return Outcome(partition, cluster, "UNSUPPORTED_VERSION")

    def designate(self, partition: Partition, cluster: Cluster, broker: int) -> Outcome:
        """Run KIP-966's ElectLeaders with a desired leader.

        Every release answers UNSUPPORTED_VERSION.
        """
        return Outcome(partition, cluster, "UNSUPPORTED_VERSION")

    def automatic_election(self, cluster: Cluster) -> Election:
        """Return the election type of events that no operator asked for."""
        if self.reads_unclean_config and cluster.unclean is UncleanElection.ENABLED:
            return Election.UNCLEAN
        return Election.ONLINE

    def fetch_epoch(self, cluster: Cluster, broker: int) -> int:
        """Return the broker epoch that a follower sends in Fetch: its own, or none.

        KIP-903.
        """
        carries = self.checks_epochs and cluster.metadata_version >= MV_FETCH_CARRIES_BROKER_EPOCH
        return cluster.epoch(broker) if carries else NO_EPOCH

    def previous_epoch(self, log_dirs: Sequence[str | None], offline_dirs: int = 0) -> int:
        """Return the PreviousBrokerEpoch that a broker sends.

        See `analysis.spec.shutdown`.
        """
        return previous_broker_epoch(log_dirs, offline_dirs) if self.reads_clean_shutdown_file else NO_EPOCH

    def is_clean(self, cluster: Cluster, broker: int, previous_epoch: int, request_version: int) -> bool:
        """Return whether a registration follows a clean shutdown.

        KIP-966, Detection of an unclean shutdown.
        """
        stored = cluster.epoch(broker)
        return request_version >= 3 and stored != NO_EPOCH and previous_epoch == stored

    def leave_isr_and_elr(self, partition: Partition, cluster: Cluster, broker: int, clean: bool) -> Partition:
        """Return the partition after a new incarnation of `broker` has registered.

        Below 4.0 it does not change, even for an ISR member.
        """
        return partition

    def refuses_revert(self, partition: Partition, cluster: Cluster, isr: Brokers) -> bool:
        """Return whether all of the ISR was added, so that the reassignment must go on."""
        return not isr and self.automatic_election(cluster) is not Election.UNCLEAN

    def min_isr_clears_elr(self, partition: Partition, cluster: Cluster) -> bool:
        """Return whether a changed min ISR empties the ELR; in releases it always does."""
        return True

    def _without_broker(
        self, partition: Partition, cluster: Cluster, broker: int, *, always: bool = False
    ) -> Partition:
        """Return the partition once `broker` may neither lead nor be in the ISR."""
        if broker not in partition.isr and not always:
            return partition
        target = self.target(partition, cluster)._replace(
            live=cluster.live - {broker}, isr=partition.isr - {broker}, election=self.automatic_election(cluster)
        )
        return self.build(partition, target)


def _with_epoch(cluster: Cluster, broker: int, epoch: int) -> Cluster:
    """Return the cluster where the stored registration of `broker` has `epoch`."""
    epochs = list(cluster.epochs) + [NO_EPOCH] * (broker + 1 - len(cluster.epochs))
    epochs[broker] = epoch
    return cluster._replace(epochs=tuple(epochs))
