"""Yields the actions that may have made a transition, each with its result.

A broker event writes its partition records into the same batch. They come before the event's own
record when a broker is fenced, registered or unregistered, and behind it when a broker is unfenced
or begins its controlled shutdown. A leader's AlterPartition and an operator's requests leave no
record of their own, so every request that could lead to the state seen is tried. The broker epochs
in an AlterPartition are taken as current: the metadata log does not have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from analysis.record.protocol import MIN_ISR
from analysis.record.requests import Request
from analysis.spec.partition import NO_EPOCH, AlterPartition, Brokers, Cluster, Election, Partition
from analysis.spec.protocol import Protocol
from ebbtide.record.rows import BrokerEvent, ConfigChange
from ebbtide.releases.known_releases import ELR_VERSION

_EVERY_ISR_MAX = 6
"""Up to so many replicas every ISR is tried: 64 of them."""


class PossibleAction(NamedTuple):
    """One action by `by` that leads to `partition`."""

    name: str
    by: str
    partition: Partition


def actions_of_events(
    protocol: Protocol, partition: Partition, cluster: Cluster, event: BrokerEvent
) -> Iterator[PossibleAction]:
    """Yield what the controller does to the partition in the batch of a broker event.

    `cluster` is the controller's knowledge before the event.
    """
    broker = event.broker
    who = f"broker {broker}"
    match event.event:
        case "fenced":
            yield PossibleAction("fence", f"{who}, fenced", protocol.fence(partition, cluster, broker).partition)
        case "unfenced":
            yield PossibleAction("unfence", f"{who}, unfenced", protocol.unfence(partition, cluster, broker).partition)
        case "shutting_down":
            found = protocol.controlled_shutdown(partition, cluster, broker)
            yield PossibleAction("controlled-shutdown", f"{who}, in controlled shutdown", found.partition)
        case "unregistered":
            yield PossibleAction(
                "unregister", f"{who}, unregistered", protocol.unregister(partition, cluster, broker).partition
            )
        case "registered":
            stored = cluster.epoch(broker)
            clean, unclean = (
                protocol.register(partition, cluster, broker, epoch=event.broker_epoch, previous_epoch=previous)
                for previous in (stored, NO_EPOCH)
            )
            if clean.partition == unclean.partition:
                yield PossibleAction("register", f"{who}, registered", clean.partition)
            else:
                yield PossibleAction("register-clean", f"{who}, registered after a clean shutdown", clean.partition)
                yield PossibleAction(
                    "register-unclean", f"{who}, registered after an unclean shutdown", unclean.partition
                )


def actions_of_configs(
    protocol: Protocol, partition: Partition, cluster: Cluster, change: ConfigChange
) -> Iterator[PossibleAction]:
    """Yield the effects of a change of min.insync.replicas or of the ELR feature."""
    if change.resource == f"feature:{ELR_VERSION}":
        found = protocol.set_elr_feature(partition, cluster, int(change.value or 0) >= 1)
        yield PossibleAction("elr-feature", f"{ELR_VERSION}={change.value}", found.partition)
    elif change.name == MIN_ISR:
        on_topic = change.resource.startswith("topic:")
        value = int(change.value) if change.value is not None else cluster.min_isr
        found = protocol.set_min_isr(partition, cluster, value, topic=on_topic)
        yield PossibleAction("clear-elr", f"{MIN_ISR}={change.value} on {change.resource}", found.partition)


def actions_of_the_leader(
    protocol: Protocol, partition: Partition, cluster: Cluster, isrs: list[Brokers]
) -> Iterator[PossibleAction]:
    """Yield the effects of the leader's AlterPartition for each of `isrs`.

    The leader has recovered or (KIP-704) is still recovering.
    """
    if partition.leader < 0:
        return
    for isr in isrs:
        for recovering in (False, True):
            request = AlterPartition(
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                isr_epochs=tuple((broker, cluster.epoch(broker)) for broker in sorted(isr)),
                recovering=recovering,
                broker_epoch=cluster.epoch(partition.leader),
            )
            made = protocol.alter_partition(partition, cluster, request).partition
            by = f"leader {partition.leader}, AlterPartition to {sorted(isr)}"
            yield PossibleAction(_alteration_name(partition, made), by, made)


def _alteration_name(before: Partition, after: Partition) -> str:
    if before.replicas != after.replicas or before.adding != after.adding or before.removing != after.removing:
        return "reassignment-completed"
    gained, lost = after.isr - before.isr, before.isr - after.isr
    if gained or lost:
        return "isr-change" if gained and lost else "isr-expand" if gained else "isr-shrink"
    return "recovered"


def actions_of_timers(
    protocol: Protocol,
    partition: Partition,
    cluster: Cluster,
    touched_disks: frozenset[int] | None,
    *,
    failing_disks: frozenset[int],
) -> Iterator[PossibleAction]:
    """Yield the effects of the controller's periodic work and of directory reports.

    A broker reports which directory a replica is in, and which directory failed. A broker with one
    directory has cause to do so only after its disk was replaced, and ends when it fails. The
    `failing_disks` are those of brokers that go on.
    """
    balanced, swept = protocol.balance(partition, cluster), protocol.sweep(partition, cluster)
    yield PossibleAction("preferred-election", "the controller's balancing", balanced.partition)
    yield PossibleAction("unclean-election", "the controller's sweep", swept.partition)
    for broker in partition.replicas:
        if touched_disks is not None and broker not in touched_disks:
            continue
        found = protocol.assign_directory(partition, cluster, broker)
        yield PossibleAction("assign-directory", f"broker {broker}", found.partition)
        if broker in failing_disks:
            failed = protocol.directory_offline(partition, cluster, broker)
            yield PossibleAction("directory-offline", f"a log directory of broker {broker}", failed.partition)


def actions_of_operators(
    protocol: Protocol, partition: Partition, cluster: Cluster, after: Partition, asked: Sequence[Request] | None
) -> Iterator[PossibleAction]:
    """Yield the effects of the elections and reassignments that were `asked` for.

    None: any may have been asked for.
    """
    for type_, kind in (("preferred", Election.PREFERRED), ("unclean", Election.UNCLEAN)):
        if asked is None or any(one.asks_for(type_) for one in asked):
            yield PossibleAction(f"{type_}-election", "an operator", protocol.elect(partition, cluster, kind).partition)
    if asked is None or any(one.kind in ("reassign", "recover") for one in asked):
        target = tuple(broker for broker in after.replicas if broker not in after.removing)
        for replicas in dict.fromkeys((target, after.replicas)):
            if replicas != partition.replicas or partition.adding or partition.removing:
                found = protocol.reassign(partition, cluster, replicas)
                yield PossibleAction("reassign", f"an operator, to {list(replicas)}", found.partition)
        if partition.adding or partition.removing:
            found = protocol.cancel_reassignment(partition, cluster)
            yield PossibleAction("cancel-reassignment", "an operator", found.partition)


def likely_isrs(before: Partition, after: Partition) -> list[Brokers]:
    """Return the ISRs that an AlterPartition between two states can have asked for."""
    return list(
        dict.fromkeys((after.isr, after.isr | before.isr, after.isr | before.isr & before.removing, before.isr))
    )


def every_isr(partition: Partition) -> list[Brokers]:
    """Return every ISR that the replicas allow.

    Of many replicas, only the ISRs one member away from the present one.
    """
    replicas = partition.replicas
    if len(replicas) > _EVERY_ISR_MAX:
        return [partition.isr ^ {broker} for broker in replicas]
    return [frozenset(some) for size in range(len(replicas) + 1) for some in combinations(replicas, size)]
