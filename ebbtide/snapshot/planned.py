"""What a cluster will be that files describe, and nobody asked: its brokers, its release, and the topics to come."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec
from packaging.version import Version

from ebbtide.releases import first_with
from ebbtide.releases.feature_levels import levels_of
from ebbtide.releases.known_releases import ELR_VERSION, METADATA_VERSION
from ebbtide.shown_text import plural, some_of
from ebbtide.snapshot.described import (
    BROKER,
    BROKER_DEFAULTS,
    CONTROLLER,
    FACTOR,
    FACTORS,
    MIN_ISR_OF_TRANSACTIONS,
    PARTITIONS,
    DescribedNode,
    FileFacts,
    PlannedTopic,
    is_number,
    join_values,
)
from ebbtide.snapshot.model import (
    BROKER_NAMES,
    CLEANUP,
    MIN_ISR,
    UNCLEAN,
    SnapshotBroker,
    SnapshotPartition,
    SnapshotTopic,
)

NEXT_TOPIC = "the-next-topic"
"""Stands for a topic that somebody makes without further words: what a server.properties decides."""
NEXT_TOPIC_MEANS = f"{NEXT_TOPIC} is any topic that is made with the brokers' defaults"
KAFKA = "kafka"
UNKNOWN_RELEASE = "Ebbtide does not know the release of the files, Kafka"

_PARTITIONS_MAX = 1_000
_OFFSETS, _TRANSACTIONS = "__consumer_offsets", "__transaction_state"


def release_in(facts: FileFacts) -> tuple[str | None, tuple[int, int] | None, tuple[str, ...], list[str]]:
    """Return the release that the files say: by three numbers, or by the levels that the oldest one supports.

    Then come the release and the feature levels that the files do not say, by name, and notes.
    """
    known = sorted((one for one in facts.releases if levels_of(one) is not None), key=Version)
    notes = [f"{UNKNOWN_RELEASE} {one}" for one in facts.releases if one not in known]
    if len(known) > 1:
        notes.append(f"the files say Kafka {', '.join(known)}: the advice is for the oldest")
    oldest = known[0] if known else None
    exact = oldest if oldest is not None and len(Version(oldest).release) > 2 else None
    range_ = (levels_of(oldest) or {})[METADATA_VERSION] if oldest is not None else None
    levels = facts.levels or (None if range_ is None or exact else (range_[0], range_[-1]))
    unsaid: tuple[str, ...] = () if exact or levels else (KAFKA,)
    if facts.levels is None:
        unsaid += () if METADATA_VERSION in facts.features else (METADATA_VERSION,)
        unsaid += (ELR_VERSION,) if oldest is None or Version(oldest) >= first_with.ELR else ()
    return exact, levels, unsaid, notes


def voters_of(facts: FileFacts, brokers: Collection[int] = ()) -> tuple[int, ...] | None:
    """Return the ids of the controllers; none if no broker is one, by its file, and None if no file says who is."""
    for node in facts.nodes:
        named = node.properties.get("controller.quorum.voters", "").split(",")
        voters = [one.partition("@")[0].strip() for one in named]
        if all(map(is_number, voters)):
            return tuple(sorted(map(int, voters)))
    if facts.is_whole and (ids := [one.id for one in facts.controllers if one.id is not None]):
        return tuple(sorted(ids))
    apart = {one.id for one in facts.brokers if "process.roles" in one.properties and CONTROLLER not in one.roles}
    return () if brokers and apart.issuperset(brokers) else None


def brokers_of(ids: Sequence[int], facts: FileFacts) -> tuple[tuple[SnapshotBroker, ...], list[str]]:
    """Return the brokers, each with the configs of its own file; those without a file have those of the first one.

    Dynamic configs count above a file's. The controllers decide on unclean elections, so theirs count for all brokers.
    """
    nodes = _with_ids(facts)
    first = next(iter(facts.brokers or facts.nodes), None)
    without = [one for one in ids if one not in nodes]
    notes = []
    if first is not None and without and facts.topics:
        them = f"broker {without[0]}" if len(without) == 1 else f"{len(without)} brokers"
        notes.append(f"no file is of {them}: {first.name} is assumed there")
    unclean = [one.properties.get(UNCLEAN, "").lower() == "true" for one in facts.controllers]
    elects_unclean = any(unclean)
    if elects_unclean and not all(unclean):
        notes.append(f"controllers differ in {UNCLEAN}: true counts, because each of them may come to lead")
    has_elr = _may_have_elr(facts)
    min_isr = _lowest(facts.controllers, MIN_ISR) if has_elr and facts.controllers else None
    if not facts.controllers and has_elr and any(MIN_ISR in one.properties for one in facts.brokers):
        notes.append(f"no file is of a controller: with the ELR, its {MIN_ISR} counts for all brokers")
    # Where some nodes set it, the others have Kafka's default, which may be the weakest.
    some_set = {name for node in facts.nodes for name in node.properties}
    usual = {name: default for name, default in BROKER_DEFAULTS.items() if name in some_set}
    brokers = []
    is_lowered = False
    for one in ids:
        node = nodes.get(one, first)
        properties = {} if node is None else {**usual, **node.properties}
        if elects_unclean:
            properties[UNCLEAN] = "true"
        if min_isr is not None and int(properties.get(MIN_ISR, min_isr)) > min_isr:
            properties[MIN_ISR] = str(min_isr)
            is_lowered = True
        if one not in nodes or not nodes[one].in_force:
            properties |= {**facts.broker_configs.get(None, {}), **facts.broker_configs.get(one, {})}
        brokers.append(
            SnapshotBroker(
                id=one,
                address=nodes[one].name if one in nodes else f"broker-{one}",
                rack=nodes[one].properties.get("broker.rack") if one in nodes else None,
                configs={name: properties[other] for name, other in BROKER_NAMES.items() if other in properties},
                keeps_disk=node is None or BROKER not in node.emptied,
            )
        )
    if is_lowered:
        whose = f"the controllers have {MIN_ISR} {min_isr}"
        notes.append(f"{whose}: with the ELR, as in a new cluster of 4.1 or later, theirs counts, so it is assumed")
    return tuple(brokers), notes


def _may_have_elr(facts: FileFacts) -> bool:
    """Whether the ELR may be on: Kafka then copies the min ISR of the controllers for all brokers."""
    if facts.levels is not None:
        return facts.features.get(ELR_VERSION, 0) >= 1
    if (level := facts.assumed.get(ELR_VERSION, facts.features.get(ELR_VERSION))) is not None:
        return int(level) >= 1
    known = [Version(one) for one in facts.releases if levels_of(one) is not None]
    known = known or [Version(one) for name, one in facts.assumed.items() if name == KAFKA]
    return min(known, default=first_with.ELR_BY_DEFAULT) >= first_with.ELR_BY_DEFAULT


def listed_topics(facts: FileFacts) -> tuple[list[int], tuple[SnapshotTopic, ...], list[str]]:
    """Return the ids of the live brokers, the listed topics and those that only other files name, and notes."""
    others = {one.name: one for one in facts.planned}
    notes: list[str] = []
    topics: list[SnapshotTopic] = []
    for topic in facts.topics:
        configs = dict(topic.configs)
        if (other := others.pop(topic.name, None)) is not None:
            notes += join_values(configs, other.configs, f"topic {topic.name}")
            if other.factor is not None and any(len(one.replicas) != other.factor for one in topic.partitions):
                notes.append(f"a file asks for {other.factor} replicas of {topic.name}: the advice takes the listed")
        topics.append(msgspec.structs.replace(topic, configs=configs))
    led = [part for topic in topics for part in topic.partitions if part.leader >= 0]
    hosting = {one for topic in topics for partition in topic.partitions for one in partition.replicas}
    ids = sorted(hosting & {one for part in led for one in (*part.isr, part.leader)})
    if named := [one.name for one in others.values() if one.factor is not None or not one.exists]:
        notes.append(f"no listing has the partitions of {some_of(named, 3)}: all replicas count as in sync")
    more, said = _placed_topics(others.values() if ids else (), ids, facts)
    return ids, (*topics, *more), [*notes, *said]


def plan_topics(facts: FileFacts) -> tuple[list[int], tuple[SnapshotTopic, ...], list[str]]:
    """Return the ids of the brokers, the topics to come, and what was assumed for them."""
    named = {one.name for one in facts.planned}
    planned = [*facts.planned]
    planned += [PlannedTopic(name=one) for one in (NEXT_TOPIC, _OFFSETS, _TRANSACTIONS) if one not in named]
    ids, notes = _broker_ids(facts, max(_filled(one, facts).factor or 1 for one in planned))
    topics, said = _placed_topics(planned, ids, facts)
    return ids, topics, [*said, *notes, *_factors_of_controllers(facts)]


def _placed_topics(
    planned: Collection[PlannedTopic], ids: Sequence[int], facts: FileFacts
) -> tuple[tuple[SnapshotTopic, ...], list[str]]:
    """Return the topics that these brokers can have; where no file has their replicas, they get a new topic's.

    A topic that exists already has no partition here then, so that nothing is claimed about it.
    """
    notes = []
    of_their_own = (NEXT_TOPIC, _OFFSETS, _TRANSACTIONS)
    open_ = [one for one in planned if one.exists and one.factor is None and one.name not in of_their_own]
    if open_:
        named = some_of([one.name for one in open_], 3)
        notes.append(f"no file has the replicas of {named}: nothing is said of it without kafka-topics.sh --describe")
    planned = [one for one in planned if one not in open_]
    filled = [_filled(one, facts) for one in planned]
    if too_wide := [one for one in filled if (one.factor or 1) > len(ids)]:
        named = some_of([f"{one.name} ({plural(one.factor or 1, 'replica')})" for one in too_wide], 3)
        notes.append(f"with {plural(len(ids), 'broker')}, Kafka cannot make {named}")
    if unknown := [one.name for one in planned if one.factor is None and one.name not in of_their_own]:
        notes.append(f"no file has the replicas of {some_of(unknown, 3)}: as many as a new topic gets are assumed")
    unplaced = [SnapshotTopic(name=one.name, configs=one.configs, is_planned=True, partitions=()) for one in open_]
    racks = {one: node.properties.get("broker.rack") for one, node in _with_ids(facts).items()}
    turns = [_turn(ids, first, racks) for first in range(len(ids))]
    placed = [_placed(one, turns) for one in filled if (one.factor or 1) <= len(ids)]
    return (*placed, *unplaced), notes


def _broker_ids(facts: FileFacts, factor: int) -> tuple[list[int], list[str]]:
    """Return the ids of the brokers: those of the files, and as many more as the topics need if the files miss some."""
    ids = set(_with_ids(facts)) & {one for one, node in _with_ids(facts).items() if node in facts.brokers}
    if facts.is_whole:
        return sorted(ids), []
    if any(CONTROLLER in one.roles for one in facts.brokers):
        ids |= set(voters_of(facts) or ())
    given = len(ids)
    free = (one for one in range(1, factor + given + 1) if one not in ids)
    ids |= {next(free) for _ in range(factor - given)}
    if (missing := len(ids) - len(facts.brokers)) > 0:
        alike = f", alike to {facts.brokers[0].name}" if facts.brokers else ""
        return sorted(ids), [f"{plural(len(ids), 'broker')} assumed, {missing} of them without a file{alike}"]
    return sorted(ids), []


def _with_ids(facts: FileFacts) -> Mapping[int, DescribedNode]:
    """Return the nodes by id; those without one get the lowest that are free, if the files have all nodes."""
    found = {one.id: one for one in facts.nodes if one.id is not None}
    if facts.is_whole:
        free = (one for one in range(1, 2 * len(facts.nodes) + 1) if one not in found)
        found |= {next(free): one for one in facts.nodes if one.id is None}
    return found


def _lowest(nodes: Sequence[DescribedNode], name: str) -> int:
    """Return the lowest value that a node gives a topic without further words."""
    default = BROKER_DEFAULTS[name]
    return min((int(one.properties.get(name, default)) for one in nodes), default=int(default))


def _factors_of_controllers(facts: FileFacts) -> list[str]:
    """Say if a tool that names no replication factor gets less than a producer to an unknown topic does."""
    alone = [one for one in facts.controllers if one not in facts.brokers]
    theirs, usual = _lowest(alone, FACTOR), _lowest(facts.brokers, FACTOR)
    if not alone or theirs >= usual:
        return []
    differ = f"the controllers have {FACTOR} {theirs}, and not the brokers' {usual}"
    return [f"{differ}: kafka-topics --create without a factor takes theirs"]


def _filled(topic: PlannedTopic, facts: FileFacts) -> PlannedTopic:
    """Return the topic with what brokers give it; Kafka's own topics have settings of their own."""
    setting, configs = FACTOR, dict[str, str]()
    if topic.name == _OFFSETS:
        setting, configs = FACTORS[1], {CLEANUP: "compact"}
    elif topic.name == _TRANSACTIONS:
        min_isr = str(_lowest(facts.brokers, MIN_ISR_OF_TRANSACTIONS))
        setting, configs = FACTORS[2], {CLEANUP: "compact", UNCLEAN: "false", MIN_ISR: min_isr}
    return PlannedTopic(
        name=topic.name,
        partitions=topic.partitions or (_lowest(facts.brokers, PARTITIONS) if setting == FACTOR else None),
        factor=topic.factor or _lowest(facts.brokers, setting),
        configs={**configs, **topic.configs},
    )


def _turn(ids: Sequence[int], first: int, racks: Mapping[int, str | None]) -> tuple[int, ...]:
    """Return the brokers in the order in which a partition takes them, from that at the place `first` on.

    As in Kafka, a partition takes a second broker of a rack only after it has one of each rack.
    """
    turn = [*ids[first:], *ids[:first]]
    places = [racks.get(one) for one in turn]
    return tuple(turn[at] for at in sorted(range(len(turn)), key=lambda at: places[:at].count(places[at])))


def _placed(topic: PlannedTopic, turns: Sequence[tuple[int, ...]]) -> SnapshotTopic:
    """Return the topic with its replicas in turn; each broker has some, so that a question about any has an answer."""
    count = min(max(topic.partitions or 1, len(turns)), _PARTITIONS_MAX)
    rows = [turns[at % len(turns)][: topic.factor or 1] for at in range(count)]
    return SnapshotTopic(
        name=topic.name,
        configs=topic.configs,
        is_planned=True,
        partitions=tuple(
            SnapshotPartition(index=at, leader=row[0], replicas=row, isr=row) for at, row in enumerate(rows)
        ),
    )
