"""Computes what the specification does with one conformance vector."""

from __future__ import annotations

from copy import copy

from analysis.spec.leader import Follower, Leader, LeaderStep
from analysis.spec.partition import (
    NO_EPOCH,
    NOBODY,
    AlterPartition,
    Brokers,
    Cluster,
    Election,
    Outcome,
    Partition,
    UncleanElection,
)
from analysis.spec.protocol import Protocol
from analysis.spec.vector_file import (
    BuilderVector,
    ControllerVector,
    Json,
    LeaderState,
    LeaderVector,
    Registrations,
    Vector,
    VectorConfig,
    VectorPartition,
)
from ebbtide.releases.feature_levels import METADATA_VERSIONS

_EXCEPTIONS = {"STALE_BROKER_EPOCH": "StaleBrokerEpochException"}


def outcome(vector: Vector, protocol: Protocol) -> dict[str, Json]:
    """Return what the specification does with a vector, in the form of `expected`."""
    match vector:
        case BuilderVector():
            return _builder_outcome(vector, protocol)
        case ControllerVector():
            return _controller_outcome(vector, protocol)
        case LeaderVector():
            return _leader_outcome(vector, protocol)
        case _:
            return {"previousBrokerEpoch": protocol.previous_epoch(vector.before.log_dirs, vector.before.offline_dirs)}


def change_record(before: Partition, after: Partition) -> dict[str, Json] | None:
    """Return the PartitionChangeRecord from `before` to `after`; `None` without one.

    Fields hold what they hold in Kafka's record and are absent where the record leaves them out.
    """
    if before.partition_epoch == after.partition_epoch:
        return None
    record: dict[str, Json] = {}
    if after.isr != before.isr:
        record["isr"] = sorted(after.isr)
    if after.leader_epoch != before.leader_epoch:
        record["leader"] = after.leader
    if after.replicas != before.replicas:
        record["replicas"] = list(after.replicas)
    if after.removing != before.removing:
        record["removingReplicas"] = sorted(after.removing)
    if after.adding != before.adding:
        record["addingReplicas"] = sorted(after.adding)
    if after.recovering != before.recovering:
        record["leaderRecoveryState"] = int(after.recovering)
    if after.elr != before.elr:
        record["eligibleLeaderReplicas"] = sorted(after.elr)
    if after.last_known != before.last_known:
        record["lastKnownElr"] = list(after.last_known)
    return record


def _builder_outcome(vector: BuilderVector, protocol: Protocol) -> dict[str, Json]:
    before, event, config = _partition(vector.before), vector.event, vector.config
    if not config.use_last_known_leader:
        protocol = copy(protocol)
        protocol.use_last_known_leader = False
    cluster = _cluster(config, NOBODY, NOBODY, NOBODY, ())
    target = protocol.target(before, cluster)._replace(
        live=frozenset(vector.brokers.acceptable_leaders),
        min_isr=config.min_isr,
        election=Election[event.election],
        isr=_brokers(event.target_isr),
        replicas=None if event.target_replicas is None else tuple(event.target_replicas),
        adding=_brokers(event.target_adding),
        removing=_brokers(event.target_removing),
        unclean=frozenset(event.unclean_shutdown_replicas),
    )
    after = protocol.build(before, target)
    return {"after": _partition_json(after), "record": change_record(before, after)}


def _controller_outcome(vector: ControllerVector, protocol: Protocol) -> dict[str, Json]:
    before, cluster = _partition(vector.before), _registrations(vector.config, vector.brokers)
    result = _event(vector, protocol, before, cluster)
    after = result.partition
    return {
        "after": _partition_json(after),
        # A changed min ISR writes a ClearElrRecord instead.
        "record": None if vector.event.type == "setConfig" else change_record(before, after),
        "error": result.error,
        "exception": _EXCEPTIONS.get(result.error),
        "effectiveMinIsr": protocol.effective_min_isr(before, cluster),
        "replyEpoch": result.cluster.epoch(vector.event.broker) if vector.event.broker >= 0 else NO_EPOCH,
    }


def _event(vector: ControllerVector, protocol: Protocol, partition: Partition, cluster: Cluster) -> Outcome:
    event = vector.event
    match event.type:
        case "fenceBroker":
            return protocol.fence(partition, cluster, event.broker)
        case "unfenceBroker":
            return protocol.unfence(partition, cluster, event.broker)
        case "registerBroker":
            return protocol.register(
                partition,
                cluster,
                event.broker,
                epoch=event.new_broker_epoch,
                previous_epoch=event.previous_broker_epoch,
                request_version=event.request_version,
                same_incarnation=event.same_incarnation,
            )
        case "brokerShutdown":
            return Outcome(protocol.leave_isr_and_elr(partition, cluster, event.broker, event.clean), cluster)
        case "controlledShutdown":
            return protocol.controlled_shutdown(partition, cluster, event.broker)
        case "unregisterBroker":
            return protocol.unregister(partition, cluster, event.broker)
        case "directoryOffline":
            return protocol.directory_offline(partition, cluster, event.broker)
        case "assignReplicasToDirs":
            return protocol.assign_directory(partition, cluster, event.broker)
        case "electLeaders":
            return protocol.elect(partition, cluster, Election[event.election_type])
        case "balanceLeaders":
            return protocol.balance(partition, cluster)
        case "electUncleanPeriodic":
            return protocol.sweep(partition, cluster)
        case "reassign" if event.target_replicas is None:
            return protocol.cancel_reassignment(partition, cluster)
        case "reassign":
            return protocol.reassign(partition, cluster, tuple(event.target_replicas or ()))
        case "setConfig" if event.name == "min.insync.replicas":
            value = None if event.value is None else int(event.value)
            if event.scope.startswith("broker:"):
                return protocol.set_broker_min_isr(partition, cluster, value)
            return protocol.set_min_isr(partition, cluster, value, topic=event.scope == "topic")
        case "setConfig":
            return protocol.set_unclean(partition, cluster, UncleanElection(event.value == "true"))
        case "alterPartition":
            request = AlterPartition(
                leader=event.broker,
                leader_epoch=event.leader_epoch,
                partition_epoch=event.partition_epoch,
                isr_epochs=tuple(event.new_isr),
                recovering=event.leader_recovery_state == "RECOVERING",
                broker_epoch=event.broker_epoch,
            )
            return protocol.alter_partition(partition, cluster, request)


def _leader_outcome(vector: LeaderVector, protocol: Protocol) -> dict[str, Json]:
    event, min_isr = vector.event, vector.config.min_isr
    leader = _leader(vector.before)
    step = LeaderStep(leader)
    match event.type:
        case "produce":
            step = protocol.append(leader, min_isr, event.acks)
        case "checkAcked":
            step = protocol.acked(leader, min_isr, event.required_offset)
        case "fetch":
            step = protocol.fetch(
                leader, min_isr, event.follower, event.offset, event.epoch, event.metadata_epoch_at_fetch
            )
        case "maybeShrinkIsr":
            step = protocol.maybe_shrink(leader, min_isr)
        case "alterPartitionOk":
            step = protocol.isr_accepted(leader, min_isr, frozenset(event.isr))
        case "alterPartitionError":
            step = protocol.isr_refused(leader, event.error)
        case "metadataIsr":
            step = protocol.isr_published(leader, min_isr, frozenset(event.isr))
        case "none":
            pass
    proposed = step.proposed
    return {
        "after": _leader_json(step.leader),
        "error": step.error,
        "done": step.done,
        "retried": step.retried,
        "sentIsr": None if proposed is None else [broker for broker, _ in proposed],
        "sentEpochs": {str(broker): epoch for broker, epoch in proposed or () if broker != leader.broker},
        "underMinIsr": protocol.is_under_min_isr(step.leader, min_isr),
    }


def _partition(state: VectorPartition) -> Partition:
    return Partition(
        replicas=tuple(state.replicas),
        isr=frozenset(state.isr),
        elr=frozenset(state.elr),
        last_known=tuple(state.last_known_elr),
        adding=frozenset(state.adding_replicas),
        removing=frozenset(state.removing_replicas),
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        recovering=state.leader_recovery_state == "RECOVERING",
    )


def _partition_json(partition: Partition) -> dict[str, Json]:
    return {
        "replicas": list(partition.replicas),
        "isr": sorted(partition.isr),
        "elr": sorted(partition.elr),
        "lastKnownElr": list(partition.last_known),
        "addingReplicas": sorted(partition.adding),
        "removingReplicas": sorted(partition.removing),
        "leader": partition.leader,
        "leaderEpoch": partition.leader_epoch,
        "partitionEpoch": partition.partition_epoch,
        "leaderRecoveryState": "RECOVERING" if partition.recovering else "RECOVERED",
    }


def _registrations(config: VectorConfig, brokers: Registrations) -> Cluster:
    known = brokers.registered
    epochs = tuple(known[at].epoch if at in known else NO_EPOCH for at in range(max(known, default=-1) + 1))
    return _cluster(
        config,
        frozenset(known),
        frozenset(broker for broker, at in known.items() if at.state != "FENCED"),
        frozenset(broker for broker, at in known.items() if at.state == "CONTROLLED_SHUTDOWN"),
        epochs,
    )


def _cluster(
    config: VectorConfig, registered: Brokers, unfenced: Brokers, shutting_down: Brokers, epochs: tuple[int, ...]
) -> Cluster:
    return Cluster(
        registered=registered,
        unfenced=unfenced,
        shutting_down=shutting_down,
        epochs=epochs,
        min_isr=config.min_isr,
        elr=config.elr_enabled,
        unclean=UncleanElection(config.unclean_election),
        metadata_version=METADATA_VERSIONS[config.metadata_version],
    )


def _leader(state: LeaderState) -> Leader:
    followers = tuple(
        Follower(broker, at.leo, at.lag_ok, at.fenced, at.shutting_down, at.fetch_epoch, at.metadata_epoch)
        for broker, at in sorted(state.followers.items())
    )
    return Leader(
        broker=state.leader,
        replicas=tuple(state.replicas),
        isr=frozenset(state.isr),
        maximal=frozenset(state.maximal_isr),
        followers=followers,
        leo=state.leader_leo,
        hw=state.hwm,
        epoch_start=state.leader_epoch_start_offset,
        pending=state.pending or "",
    )


def _leader_json(leader: Leader) -> dict[str, Json]:
    return {
        "isr": sorted(leader.isr),
        "maximalIsr": sorted(leader.maximal),
        "pending": leader.pending or None,
        "leaderLeo": leader.leo,
        "hwm": leader.hw,
        "followers": {
            str(at.broker): {
                "leo": at.leo,
                "lagOk": at.caught_up,
                "fenced": at.fenced,
                "shuttingDown": at.shutting_down,
                "fetchEpoch": at.fetch_epoch,
                "metadataEpoch": at.metadata_epoch,
            }
            for at in leader.followers
        },
    }


def _brokers(brokers: list[int] | None) -> Brokers | None:
    return None if brokers is None else frozenset(brokers)
