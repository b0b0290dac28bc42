"""Puts topics together that can lose the same: alike in RF, min ISR, unclean election, flush and cleanup."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import msgspec

from ebbtide.shown_text import plural, some_of
from ebbtide.snapshot.model import (
    CLEANUP,
    FLUSH_MESSAGES,
    FLUSH_MS,
    KAFKA_DEFAULTS,
    MIN_ISR,
    UNCLEAN,
    ClusterSnapshot,
    SnapshotPartition,
    SnapshotTopic,
    weakest,
)

_NAMED_MAX = 5
NEVER = 2**62
"""A flush interval from here on is none: Kafka's default is the largest number of 64 bits."""


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What makes topics alike; `min_isr` is as configured, and may be above `rf`."""

    rf: int
    min_isr: int
    unclean: bool
    flush_messages: int
    flush_ms: int
    cleanup: str

    @property
    def effective_min_isr(self) -> int:
        """The min ISR of the model, at most RF."""
        return max(1, min(self.min_isr, self.rf))

    @property
    def flushes_each_record(self) -> bool:
        """Whether each record is on the disk before it is acked."""
        return self.flush_messages <= 1

    def in_words(self) -> str:
        """Return the settings in a line."""
        parts = [f"RF {self.rf}", f"min ISR {self.min_isr}"]
        if self.unclean:
            parts.append("unclean election on")
        if self.flush_messages < NEVER:
            parts.append(f"flush.messages={self.flush_messages:,}")
        if self.flush_ms < NEVER:
            parts.append(f"flush.ms={self.flush_ms:,}")
        if self.cleanup != "delete":
            parts.append(f"cleanup {self.cleanup}")
        return ", ".join(parts)


class TopicGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Topics that are alike, and how many of their partitions were seen.

    `rack_replicas`: the most replicas that a partition has in one rack; 0 if unknown.
    `on_one_host`: all brokers are, so that they lose power together. `in_containers`: how many brokers may
    get new containers at once, with empty disks.
    """

    settings: GroupSettings
    topics: tuple[str, ...]
    partitions: int
    rack_replicas: int
    brokers: int
    on_one_host: bool = False
    in_containers: int = 0

    def topics_in_words(self, most: int = 4) -> str:
        """Return some names, and how many there are."""
        seen = f", {plural(self.partitions, 'partition')}" if self.partitions else ""
        return f"{plural(len(self.topics), 'topic')}{seen}: {some_of(self.topics, most)}"


def partitions_of(
    snapshot: ClusterSnapshot, pattern: str = "*"
) -> Iterator[tuple[SnapshotTopic, str, SnapshotPartition]]:
    """Yield the partitions of the topics that fit `pattern`, each with its topic and its name."""
    for topic in snapshot.topics:
        if fnmatchcase(topic.name, pattern):
            for partition in topic.partitions:
                yield topic, f"{topic.name}-{partition.index}", partition


def groups_of(snapshot: ClusterSnapshot, pattern: str = "*") -> list[TopicGroup]:
    """Return the groups of the topics that fit `pattern`, the largest first."""
    racks = {broker.id: broker.rack for broker in snapshot.brokers}
    defaults = broker_level(snapshot)
    brokers = len({one.id for one in snapshot.brokers} | hosting_brokers(snapshot))
    emptied = sum(not broker.keeps_disk for broker in snapshot.brokers)
    named: dict[GroupSettings, dict[str, None]] = defaultdict(dict)
    counted: Counter[GroupSettings] = Counter()
    together: dict[GroupSettings, int] = defaultdict(int)
    for topic, _, partition in partitions_of(snapshot, pattern):
        settings = settings_of({**defaults, **topic.configs}, len(final_replicas(partition)))
        named[settings][topic.name] = None
        counted[settings] += not topic.is_planned
        together[settings] = max(together[settings], _in_one_rack(final_replicas(partition), racks))
    return [
        TopicGroup(
            settings=settings,
            topics=tuple(named[settings]),
            partitions=count,
            rack_replicas=together[settings],
            brokers=brokers,
            on_one_host=snapshot.on_one_host,
            in_containers=min(emptied, 1) if snapshot.rolls else emptied,
        )
        for settings, count in sorted(counted.items(), key=lambda one: (-one[1], one[0].in_words()))
    ]


def racks_notes(snapshot: ClusterSnapshot) -> list[str]:
    """Return a sentence on brokers whose rack is unknown: no line about racks counts a partition on them."""
    live = [one.id for one in snapshot.brokers if one.rack is None]
    dead = sorted(hosting_brokers(snapshot) - {one.id for one in snapshot.brokers})
    if live and len(live) == len(snapshot.brokers):
        return ["no broker names its rack (broker.rack), so nothing is said about racks"]
    unknown = sorted([*live, *dead])
    if not unknown:
        return []
    whose, are = ("the rack", "is") if len(unknown) == 1 else ("the racks", "are")
    return [f"{whose} of {brokers_in_words(unknown)} {are} unknown: lines about racks leave out partitions there"]


def hosting_brokers(snapshot: ClusterSnapshot) -> set[int]:
    """Return the brokers that have replicas, whether they are alive or not."""
    return {one for _, _, partition in partitions_of(snapshot) for one in partition.replicas}


def brokers_in_words(ids: Sequence[int]) -> str:
    """Return the ids with their noun, so that none reads as a count: `brokers 3 and 5`."""
    if not ids:
        return "no brokers"
    names = [str(one) for one in ids]
    rest = len(names) - _NAMED_MAX
    *first, last = [*names[:_NAMED_MAX], f"{rest} more"] if rest > 0 else names
    return f"brokers {', '.join(first)} and {last}" if first else f"broker {last}"


def final_replicas(partition: SnapshotPartition) -> tuple[int, ...]:
    """Return the replicas once a reassignment under way is complete."""
    return tuple(one for one in partition.replicas if one not in partition.removing)


def broker_level(snapshot: ClusterSnapshot) -> dict[str, str]:
    """Return the value of each config for topics that do not set it; the weakest, where brokers differ."""
    found: dict[str, str] = {}
    for name, default in KAFKA_DEFAULTS.items():
        values = {broker.configs[name] for broker in snapshot.brokers if name in broker.configs}
        found[name] = weakest(name, values) if values else default
    return found


def differing_configs(snapshot: ClusterSnapshot) -> list[str]:
    """Return a sentence for each config in which brokers differ."""
    sentences = []
    for name in KAFKA_DEFAULTS:
        values = sorted({broker.configs[name] for broker in snapshot.brokers if name in broker.configs})
        if len(values) > 1:
            sentences.append(f"brokers differ in {name}: {', '.join(values)}; the advice takes the weakest")
    return sentences


def settings_of(values: Mapping[str, str], rf: int) -> GroupSettings:
    """Return the settings of a partition with `rf` replicas, from all values of its topic's configs."""
    return GroupSettings(
        rf=rf,
        min_isr=int(values[MIN_ISR]),
        unclean=values[UNCLEAN].lower() == "true",
        flush_messages=int(values[FLUSH_MESSAGES]),
        flush_ms=int(values[FLUSH_MS]),
        cleanup=values[CLEANUP],
    )


def _in_one_rack(replicas: Sequence[int], racks: Mapping[int, str | None]) -> int:
    places = [racks.get(broker) for broker in replicas]
    if any(place is None for place in places):
        return 0
    return max(Counter(places).values())
