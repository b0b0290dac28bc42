"""Makes a snapshot of what people have at hand instead of a cluster: Kafka's own listings, and server.properties.

Several files are of one cluster. What they do not say is assumed in the weakest way, and a note says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from ebbtide import properties_file
from ebbtide.errors import UsageError
from ebbtide.releases.feature_levels import METADATA_VERSIONS
from ebbtide.releases.known_releases import METADATA_VERSION
from ebbtide.scenario.foreign_files import FEATURES_LIST, SERVER_PROPERTIES, TOPICS_LIST, what_is
from ebbtide.shown_text import plural
from ebbtide.snapshot.model import (
    BROKER_NAMES,
    MIN_ISR,
    REPLICAS_MAX,
    SNAPSHOT_VERSION,
    ClusterSnapshot,
    SnapshotBroker,
    SnapshotPartition,
    SnapshotTopic,
    check_snapshot,
)
from ebbtide.untrusted.files import UnreadableFile, read_file

BYTES_MAX = 64 << 20
READABLE = (TOPICS_LIST, FEATURES_LIST, SERVER_PROPERTIES)
NEXT_TOPIC = "the-next-topic"
"""Stands for a topic that somebody makes without further words: what a server.properties decides."""

_LIST = "kafka-topics.sh --bootstrap-server HOST:PORT --describe > topics.txt"
_DESCRIBE = "kafka-features.sh --bootstrap-server HOST:PORT describe > features.txt"
_COLUMN = re.compile(r"([A-Z][A-Za-z ]*): *([^\t]*)")
_IDS = re.compile(r"[0-9]{1,10}(?:, *[0-9]{1,10})*")
_OF_INTERNAL = {
    "__consumer_offsets": ("offsets.topic.replication.factor", "3", None, ""),
    "__transaction_state": (
        "transaction.state.log.replication.factor",
        "3",
        "transaction.state.log.min.isr",
        "2",
    ),
}
"""The settings of Kafka's own topics: replication factor and min ISR, each with its default."""


def is_of_text(path: Path) -> bool:
    """Whether a file is one of those that make a snapshot here; who reads it says what is wrong with any other."""
    try:
        return what_is(read_file(path, bytes_max=BYTES_MAX)) in READABLE
    except UnreadableFile:
        return False


def snapshot_of_files(paths: Sequence[Path]) -> ClusterSnapshot:
    """Return the cluster that the files describe. Raises `UsageError` for other files, and for a line without sense."""
    topics: list[SnapshotTopic] = []
    features: dict[str, int] = {}
    levels: tuple[int, int] | None = None
    nodes: list[dict[str, str]] = []
    for path in paths:
        content = read_file(path, what="the file", bytes_max=BYTES_MAX)
        match what_is(content):
            case kind if kind == TOPICS_LIST:
                topics += _topics(path, content.decode("utf-8", "replace"))
            case kind if kind == FEATURES_LIST:
                features, levels = _features(path, content.decode("utf-8", "replace"))
            case kind if kind == SERVER_PROPERTIES:
                nodes.append(properties_file.parse(content.decode("latin-1")))
            case kind:
                raise UsageError(
                    "this file does not describe a cluster",
                    where=str(path),
                    got=kind or "no file that Ebbtide knows",
                    allowed=f"one file of --save, or together {', '.join(READABLE)}",
                )
    assumed = []
    if not topics:
        topics = list(_topics_to_come(nodes[0] if nodes else {}))
        count = max(len(one.partitions[0].replicas) for one in topics)
        assumed.append(f"no file has topics: {plural(count, 'broker')} assumed, and the topics that Kafka would make")
    hosting = sorted({one for topic in topics for partition in topic.partitions for one in partition.replicas})
    alive = {one for topic in topics for partition in topic.partitions for one in (*partition.isr, partition.leader)}
    brokers, of_nodes = _brokers([one for one in hosting if one in alive], nodes)
    assumed += of_nodes
    if not features:
        assumed.append("no file has the feature levels: the newest metadata.version, and the ELR off")
    snapshot = ClusterSnapshot(
        snapshot_version=SNAPSHOT_VERSION,
        taken_at="the time of the files",
        cluster_id=", ".join(path.name for path in paths),
        brokers=brokers,
        features=features,
        controllers=_voters(nodes),
        metadata_versions=levels,
        topics=tuple(topics),
        assumed=tuple(assumed),
    )
    check_snapshot(snapshot, ", ".join(map(str, paths)))
    return snapshot


def _brokers(alive: Sequence[int], nodes: Sequence[dict[str, str]]) -> tuple[tuple[SnapshotBroker, ...], list[str]]:
    """Return the brokers, each with the configs of its own file; those without a file have those of the first one."""
    ids = [node.get("node.id", node.get("broker.id", "")) for node in nodes]
    by_id = {int(one): node for one, node in zip(ids, nodes, strict=True) if one.isdecimal()}
    first = nodes[0] if nodes else {}
    without = [one for one in alive if one not in by_id]
    notes = []
    if nodes and without:
        them = f"broker {without[0]}" if len(without) == 1 else f"{len(without)} brokers"
        notes.append(f"{them} without a server.properties: that of the first file is assumed there")
    return tuple(
        SnapshotBroker(
            id=one,
            address=f"broker-{one}",
            rack=by_id.get(one, {}).get("broker.rack"),
            configs={
                name: value
                for name, other in BROKER_NAMES.items()
                if (value := by_id.get(one, first).get(other)) is not None
            },
        )
        for one in alive
    ), notes


def _voters(nodes: Sequence[dict[str, str]]) -> tuple[int, ...] | None:
    for node in nodes:
        voters = [one.partition("@")[0].strip() for one in node.get("controller.quorum.voters", "").split(",")]
        if all(one.isdecimal() for one in voters):
            return tuple(sorted(map(int, voters)))
    return None


def _topics_to_come(node: dict[str, str]) -> Iterator[SnapshotTopic]:
    """Yield the next topic that somebody makes without further words, and Kafka's own topics."""
    count = int(node["num.partitions"]) if node.get("num.partitions", "").isdecimal() else 1
    yield _topic_to_come(NEXT_TOPIC, node.get("default.replication.factor", "1"), min(count, 100), {})
    for name, (factor, factor_default, min_isr, min_isr_default) in _OF_INTERNAL.items():
        configs = {} if min_isr is None else {MIN_ISR: node.get(min_isr, min_isr_default)}
        yield _topic_to_come(name, node.get(factor, factor_default), 1, configs)


def _topic_to_come(name: str, factor: str, partitions: int, configs: dict[str, str]) -> SnapshotTopic:
    if not factor.isdecimal() or not 1 <= int(factor) <= REPLICAS_MAX:
        raise UsageError("not a replication factor", where=name, got=factor, allowed=f"1 to {REPLICAS_MAX}")
    replicas = tuple(range(1, int(factor) + 1))
    return SnapshotTopic(
        name=name,
        internal=name.startswith("__"),
        configs=configs,
        partitions=tuple(
            SnapshotPartition(index=at, leader=1, replicas=replicas, isr=replicas) for at in range(partitions)
        ),
    )


def _topics(path: Path, text: str) -> Iterator[SnapshotTopic]:
    """Yield the topics of `kafka-topics --describe`, whose columns stand behind their names."""
    found: dict[str, SnapshotTopic] = {}
    for number, line in enumerate(text.splitlines(), 1):
        columns = {name.strip(): value.strip() for name, value in _COLUMN.findall(line)}
        name = columns.get("Topic")
        if name is None:
            continue
        topic = found.setdefault(name, SnapshotTopic(name=name, partitions=(), internal=name.startswith("__")))
        if "Partition" in columns:
            partition = _partition(path, number, columns)
            found[name] = msgspec.structs.replace(topic, partitions=(*topic.partitions, partition))
        elif "Configs" in columns:
            pairs = (one.partition("=")[::2] for one in columns["Configs"].split(","))
            configs = {key.strip(): value.strip() for key, value in pairs if key.strip() in BROKER_NAMES}
            found[name] = msgspec.structs.replace(topic, configs=configs)
    yield from found.values()


def _partition(path: Path, line: int, columns: dict[str, str]) -> SnapshotPartition:
    def ids(name: str) -> tuple[int, ...] | None:
        text = columns.get(name, "")
        if text in ("", "N/A"):
            return () if text == "" and name in columns else None
        if not _IDS.fullmatch(text):
            got = f"{name}: {text[:60]}"
            raise UsageError(
                "not ids of brokers", where=f"{path}:{line}", got=got, allowed="ids such as 1,2,3", next=_LIST
            )
        return tuple(int(one) for one in text.split(","))

    leader = columns.get("Leader", "none")
    return SnapshotPartition(
        index=int(columns["Partition"]) if columns["Partition"].isdecimal() else 0,
        leader=int(leader) if leader.isdecimal() else -1,
        replicas=ids("Replicas") or (),
        isr=ids("Isr") or (),
        elr=ids("Elr"),
        last_known_elr=ids("LastKnownElr"),
        adding=ids("Adding Replicas") or (),
        removing=ids("Removing Replicas") or (),
    )


def _features(path: Path, text: str) -> tuple[dict[str, int], tuple[int, int] | None]:
    """Return the finalised levels of `kafka-features describe`, and the metadata.versions that the node supports."""
    features: dict[str, int] = {}
    supported: tuple[int, int] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        columns = {name.strip(): value.strip() for name, value in _COLUMN.findall(line)}
        if "Feature" not in columns:
            continue
        names = ("SupportedMinVersion", "SupportedMaxVersion", "FinalizedVersionLevel")
        texts = [columns.get(one, "") for one in names]
        levels = [METADATA_VERSIONS.get(one, int(one) if one.isdecimal() else -1) for one in texts]
        if min(levels) < 0:
            got = line.strip()[:100]
            where, allowed = f"{path}:{number}", f"a line with {', '.join(names)}"
            raise UsageError("not a feature with its levels", where=where, got=got, allowed=allowed, next=_DESCRIBE)
        features[columns["Feature"]] = levels[2]
        if columns["Feature"] == METADATA_VERSION:
            supported = levels[0], levels[1]
    return features, supported
