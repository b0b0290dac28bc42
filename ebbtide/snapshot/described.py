"""What files say of a cluster that nobody asked: its nodes with their properties, its topics, its release."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ebbtide.errors import EbbtideError, Problems, UsageError
from ebbtide.scenario.kafka_settings import is_numeric
from ebbtide.shown_text import some_of
from ebbtide.snapshot.model import (
    BROKER_NAMES,
    FLUSH_MESSAGES,
    FLUSH_MS,
    KAFKA_DEFAULTS,
    MIN_ISR,
    REPLICAS_MAX,
    UNCLEAN,
    SnapshotTopic,
    weakest,
)

BROKER, CONTROLLER = "broker", "controller"
DROPPED = "Dropped: "
"""Begins a note on what a file has that is not of the cluster."""
FACTOR, PARTITIONS = "default.replication.factor", "num.partitions"
FACTORS = (FACTOR, "offsets.topic.replication.factor", "transaction.state.log.replication.factor")
MIN_ISR_OF_TRANSACTIONS = "transaction.state.log.min.isr"
BROKER_DEFAULTS = {
    **{other: KAFKA_DEFAULTS[name] for name, other in BROKER_NAMES.items()},
    PARTITIONS: "1",
    FACTOR: "1",
    FACTORS[1]: "3",
    FACTORS[2]: "3",
    MIN_ISR_OF_TRANSACTIONS: "2",
}
"""Kafka's default of each setting of a broker that counts for what a topic loses."""
_NUMBERS = frozenset(
    {MIN_ISR, FLUSH_MESSAGES, FLUSH_MS, "log.flush.interval.messages", "log.flush.interval.ms"}
    | {PARTITIONS, MIN_ISR_OF_TRANSACTIONS, "node.id", "broker.id"}
)


def is_number(text: str) -> bool:
    """Whether a text is a number from 0 on; Python refuses to read one of thousands of digits."""
    return re.fullmatch(r"[0-9]{1,19}", text) is not None


class DescribedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a file, with its properties by Kafka's names; `name` is what the file calls it.

    `in_force`: the properties are those of a running broker, with its dynamic configs. `emptied`: the roles whose disk
    is empty in a new container.
    """

    name: str
    properties: dict[str, str]
    in_force: bool = False
    emptied: frozenset[str] = frozenset()

    @property
    def id(self) -> int | None:
        """Its id, None if the file does not say it."""
        text = self.properties.get("node.id", self.properties.get("broker.id", ""))
        return int(text) if is_number(text) else None

    @property
    def roles(self) -> frozenset[str]:
        """Its process roles; a file that names none is taken for that of a broker."""
        named = self.properties.get("process.roles", BROKER).split(",")
        return frozenset(one.strip() for one in named)


class PlannedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that a file asks for; None is what the brokers give a topic without further words.

    `exists`: it is there already, so that its missing values are unknown.
    """

    name: str
    partitions: int | None = None
    factor: int | None = None
    configs: dict[str, str] = {}
    exists: bool = False


class FileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What files say, each field as far as they do.

    `is_whole`: the nodes are all that the cluster has. `on_one_host`: and they run on one machine. `rolls`: they get
    new containers one after the other. `topics` were seen on a cluster, `planned` are asked for. `levels` are the
    metadata.versions that a broker supports, `releases` have two or three numbers. `broker_configs` are dynamic configs
    by broker; those of None are of all brokers. `unread` says what of the cluster a file leaves out. `assumed` is what
    the user says, by the names of `--assume`. `misspelled` has sentences on names that nothing reads, each with the
    file, service or resource.
    """

    nodes: tuple[DescribedNode, ...] = ()
    is_whole: bool = False
    on_one_host: bool = False
    rolls: bool = False
    topics: tuple[SnapshotTopic, ...] = ()
    planned: tuple[PlannedTopic, ...] = ()
    features: dict[str, int] = {}
    levels: tuple[int, int] | None = None
    releases: tuple[str, ...] = ()
    broker_configs: dict[int | None, dict[str, str]] = {}
    notes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    assumed: dict[str, str] = {}
    misspelled: tuple[tuple[str, str], ...] = ()

    @property
    def brokers(self) -> list[DescribedNode]:
        """The nodes that are brokers."""
        return [one for one in self.nodes if BROKER in one.roles]

    @property
    def controllers(self) -> list[DescribedNode]:
        """The nodes that are controllers."""
        return [one for one in self.nodes if CONTROLLER in one.roles]


def merged(facts: Sequence[FileFacts]) -> FileFacts:
    """Return what several files of one cluster say together. Raises `UsageError` if two files have one node's id."""
    owners: dict[str, dict[str, None]] = {}
    for words, owner in (pair for one in facts for pair in one.misspelled):
        owners.setdefault(words, {})[owner] = None
    notes = [f"in {some_of(list(owners[words]), 3)}: {words}" for words in owners]
    notes += [note for one in facts for note in one.notes]
    configs: dict[int | None, dict[str, str]] = {}
    planned: dict[str, PlannedTopic] = {}
    features: dict[str, int] = {}
    for one in facts:
        for broker, values in one.broker_configs.items():
            whose = "the default of all brokers" if broker is None else f"broker {broker}"
            notes += join_values(configs.setdefault(broker, {}), values, whose)
        for topic in one.planned:
            known = planned.get(topic.name, topic)
            own = dict(known.configs)
            notes += join_values(own, topic.configs, f"topic {topic.name}")
            planned[topic.name] = PlannedTopic(
                name=topic.name,
                partitions=known.partitions or topic.partitions,
                factor=known.factor or topic.factor,
                configs=own,
                exists=known.exists or topic.exists,
            )
        for name, level in one.features.items():
            if (before := features.setdefault(name, level)) != level:
                features[name] = min(before, level)
                notes.append(f"{name} is {before} and {level} in these files: the advice takes {features[name]}")
    nodes = [node for one in facts for node in one.nodes]
    by_id: dict[int | None, DescribedNode] = {}
    for node in nodes:
        if node.id is None or (other := by_id.setdefault(node.id, node)) is node:
            continue
        if not (node.in_force or other.in_force):
            raise UsageError(
                "two nodes with one id",
                got=f"{node.id}: {other.name}, {node.name}",
                allowed="files of one cluster",
                next="name each node once; in a compose file, its service mounts its server.properties",
            )
        if node.in_force and other.in_force:
            notes += join_values(other.properties, node.properties, other.name)
        else:  # what runs counts above what its file says
            runs, written = (node, other) if node.in_force else (other, node)
            by_id[node.id] = msgspec.structs.replace(written, properties=runs.properties, in_force=True)
    nodes = [*by_id.values(), *(node for node in nodes if node.id is None)]
    topics = [topic for one in facts for topic in one.topics]
    listed: dict[str, SnapshotTopic] = {}  # a topic that is listed twice in the same words is one
    return FileFacts(
        nodes=tuple(nodes),
        is_whole=any(one.is_whole for one in facts),
        on_one_host=[one.on_one_host for one in facts if one.nodes] == [True],
        rolls=any(one.rolls for one in facts),
        topics=tuple(one for one in topics if listed.setdefault(one.name, one) is one or listed[one.name] != one),
        planned=tuple(planned.values()),
        features=features,
        levels=min((one.levels for one in facts if one.levels is not None), key=max, default=None),
        releases=tuple(dict.fromkeys(release for one in facts for release in one.releases)),
        broker_configs=configs,
        notes=tuple(dict.fromkeys(notes)),
        unread=tuple(dict.fromkeys(note for one in facts for note in one.unread)),
    )


def join_values(known: dict[str, str], more: Mapping[str, str], whose: str) -> list[str]:
    """Add what more is said of a topic or of brokers; where values differ, the weakest counts, and a note says so."""
    notes = []
    for name, value in more.items():
        before = known.setdefault(name, value)
        if before.lower() != value.lower() and name in {*BROKER_DEFAULTS, *BROKER_NAMES}:
            known[name] = weakest(name, {before, value})
            notes.append(f"{whose} has {name} {before} and {value} in these files: the advice takes {known[name]}")
    return notes


def value_problems(values: Mapping[str, str], where: str, lines: Mapping[str, int]) -> Iterator[UsageError]:
    """Yield what is wrong with the values that the advice reads, each with its line."""
    for name, value in values.items():
        allowed = None
        if name in FACTORS and not (is_number(value) and 1 <= int(value) <= REPLICAS_MAX):
            allowed = f"1 to {REPLICAS_MAX}"
        elif name in _NUMBERS and not is_number(value):
            allowed = "a whole number"
        elif not value and (is_numeric("node", name) or is_numeric("topic", name)):
            allowed = "a number"
        elif name == "process.roles" and not {one.strip() for one in value.split(",")} <= {BROKER, CONTROLLER}:
            allowed = f"{BROKER}, {CONTROLLER}, or both with a comma between"
        elif name == UNCLEAN and value.lower() not in ("true", "false"):
            allowed = "true or false"
        if allowed is not None:
            yield file_error("not a value of this setting", f"{where}{name}", lines.get(name), value, allowed)
    if values.get("zookeeper.connect") and "process.roles" not in values:
        yield zookeeper_error(where.rstrip(": ") or None, lines.get("zookeeper.connect"))


def zookeeper_error(where: str | None, line: int | None) -> UsageError:
    """Return the error for a cluster that the model does not have."""
    allowed = "a cluster in KRaft mode, 3.3 or newer"
    return file_error("this cluster keeps its metadata in ZooKeeper", where, line, None, allowed)


def file_error(what: str, where: str | None, line: int | None, got: str | None, allowed: str | None) -> UsageError:
    """Return an error with the line of the file that has it, if the line is known."""
    return UsageError(what, where=where, got=repr("") if got == "" else got and got[:60], allowed=allowed).at_line(line)


def raise_problems(path: Path, problems: Sequence[EbbtideError]) -> None:
    """Raise all that is wrong with a file as one error, if anything is."""
    if problems:
        raise Problems(str(path), list(problems))
