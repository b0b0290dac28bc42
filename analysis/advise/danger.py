"""The partitions that are in danger now, the worst first."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from analysis.advise.groups import broker_level, brokers_in_words, final_replicas, hosting_brokers, partitions_of
from analysis.advise.release import ReleaseFacts
from ebbtide.shown_text import plural
from ebbtide.snapshot.model import MIN_ISR, ClusterSnapshot, SnapshotPartition

EXAMPLES_MAX = 5


class DangerNow(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of danger, the number of partitions in it, and some of them in words."""

    kind: str
    what: str
    count: int
    examples: tuple[str, ...]


class LastHolder(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that is the last in-sync replica of `count` partitions; some of them in words."""

    broker: int
    count: int
    examples: tuple[str, ...]


_KINDS: tuple[tuple[str, str], ...] = (
    ("leaderless", "{has} no leader: nobody can read or write {it}"),
    (
        "last-replica-below-min-isr",
        "{has} one in-sync replica left and {is_} below min.insync.replicas: acks=all is refused, and another failure "
        "may lose records",
    ),
    ("last-replica", "{has} one in-sync replica left: another failure may lose records or stop {it}"),
    ("below-min-isr", "{is_} below min.insync.replicas: acks=all is refused"),
    ("under-replicated", "{has} replicas out of the ISR"),
    ("reassigned", "{is_} being reassigned"),
)


WORDS = {
    True: {"has": "has", "is_": "is", "it": "it", "stops": "stops"},
    False: {"has": "have", "is_": "are", "it": "them", "stops": "stop"},
}
"""The words for one partition, and for several."""


def last_holders(snapshot: ClusterSnapshot, release: ReleaseFacts, pattern: str = "*") -> list[LastHolder]:
    """Return the brokers that must not be stopped: the only one in sync of a partition with several replicas.

    A partition without a leader has no running broker in sync: its last one is brought back. Of one with another
    eligible replica that runs, the leader may stop.
    """
    held: dict[int, list[str]] = {}
    live = {one.id for one in snapshot.brokers}
    for _, name, partition in partitions_of(snapshot, pattern):
        is_last = len(partition.isr) == 1 and not live & set(release.counted(partition).elr or ())
        if is_last and len(final_replicas(partition)) > 1 and partition.leader >= 0:
            held.setdefault(partition.isr[0], []).append(name)
    return [
        LastHolder(broker=broker, count=len(names), examples=tuple(names[:EXAMPLES_MAX]))
        for broker, names in sorted(held.items(), key=lambda one: (-len(one[1]), one[0]))
    ]


def bring_back(snapshot: ClusterSnapshot, pattern: str = "*") -> str | None:
    """Return what to do first where brokers with replicas are not alive; None where all are."""
    dead = hosting_brokers(snapshot) - {one.id for one in snapshot.brokers}
    waiting = [one for _, _, one in partitions_of(snapshot, pattern) if dead & set(final_replicas(one))]
    if not waiting:
        return None
    missing = sorted({one for partition in waiting for one in dead & set(final_replicas(partition))})
    last = sum(partition.leader < 0 for partition in waiting)
    led = f", of which {last:,} {'has' if last == 1 else 'have'} no leader" if last else ""
    in_sync = sorted({one for partition in waiting if partition.leader < 0 for one in partition.isr} & dead)
    if in_sync and in_sync != missing:
        led += (
            f"; {brokers_in_words(in_sync)} before the others: {'it was' if len(in_sync) == 1 else 'they were'} in sync"
        )
    whose = "its disk: it has" if len(missing) == 1 else "their disks: they have"
    waits = plural(len(waiting), "partition")
    return f"bring {brokers_in_words(missing)} back, with {whose} replicas of {waits}{led}"


def dangers_now(snapshot: ClusterSnapshot, release: ReleaseFacts, pattern: str = "*") -> list[DangerNow]:
    """Return each kind of danger that some partition is in; a partition counts for its worst kind."""
    default = broker_level(snapshot)[MIN_ISR]
    found: dict[str, list[str]] = {kind: [] for kind, _ in _KINDS}
    for topic, name, partition in partitions_of(snapshot, pattern):
        min_isr = int(topic.configs.get(MIN_ISR) or default)
        if (kind := next(_kinds_of(partition, min_isr, release), None)) is not None:
            found[kind].append(_in_words(name, partition))
    return [
        DangerNow(
            kind=kind,
            what=what.format_map(WORDS[len(found[kind]) == 1]),
            count=len(found[kind]),
            examples=tuple(found[kind][:EXAMPLES_MAX]),
        )
        for kind, what in _KINDS
        if found[kind]
    ]


def _kinds_of(partition: SnapshotPartition, min_isr: int, release: ReleaseFacts) -> Iterator[str]:
    rf = len(final_replicas(partition))
    if partition.leader < 0:
        yield "leaderless"
    is_refused = len(partition.isr) < min(min_isr, rf) or release.refuses_acks_all(rf, min_isr)
    if len(partition.isr) == 1 and rf > 1:
        yield "last-replica-below-min-isr" if is_refused else "last-replica"
    if is_refused:
        yield "below-min-isr"
    if not set(final_replicas(partition)) <= set(partition.isr):
        yield "under-replicated"
    if partition.adding or partition.removing:
        yield "reassigned"


def _in_words(name: str, partition: SnapshotPartition) -> str:
    parts = [f"on {_ids(partition.replicas)}", f"ISR {_ids(partition.isr)}"]
    if partition.elr:
        parts.append(f"ELR {_ids(partition.elr)}")
    return f"{name} ({', '.join(parts)})"


def _ids(brokers: tuple[int, ...]) -> str:
    """Return ids that cannot be read as a size: `ISR 2` might be two brokers."""
    return f"broker{'s' * (len(brokers) > 1)} {','.join(map(str, brokers))}" if brokers else "none"
