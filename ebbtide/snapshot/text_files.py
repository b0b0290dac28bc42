"""Makes a snapshot of what people have at hand instead of a cluster: Kafka's listings, and files that make clusters.

Several files are of one cluster. What they do not say is assumed in the weakest way, and a note says so.
The listings are those of kafka-topics, kafka-features and kafka-configs --describe.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ebbtide import properties_file
from ebbtide.errors import UsageError
from ebbtide.releases.feature_levels import METADATA_VERSIONS
from ebbtide.releases.known_releases import METADATA_VERSION
from ebbtide.scenario.foreign_files import (
    COMPOSE_FILE,
    CONFIGS_LIST,
    FEATURES_LIST,
    READABLE,
    SERVER_PROPERTIES,
    STRIMZI,
    TOPICS_LIST,
    what_is,
)
from ebbtide.shown_text import plural
from ebbtide.snapshot.compose_files import read_compose
from ebbtide.snapshot.described import (
    BROKER_DEFAULTS,
    DescribedNode,
    FileFacts,
    PlannedTopic,
    is_number,
    join_values,
    merged,
    raise_problems,
    value_problems,
)
from ebbtide.snapshot.model import (
    BROKER_NAMES,
    OF_FILES,
    SNAPSHOT_VERSION,
    ClusterSnapshot,
    SnapshotPartition,
    SnapshotTopic,
    check_snapshot,
    unknown_file_error,
)
from ebbtide.snapshot.planned import brokers_of, listed_topics, plan_topics, release_in, voters_of
from ebbtide.snapshot.setting_names import misspelled_names, zookeeper_notes
from ebbtide.snapshot.strimzi_files import read_strimzi
from ebbtide.untrusted.files import SMALL_BYTES_MAX, UnreadableFile, read_file

_LIST = "kafka-topics.sh --bootstrap-server HOST:PORT --describe > topics.txt"
_DESCRIBE = "kafka-features.sh --bootstrap-server HOST:PORT describe > features.txt"
_NAME = r"(?<!\S)(?:Adding |Removing )?[A-Z][A-Za-z]{1,40}:"
_COLUMN = re.compile(rf"({_NAME})(.*?)(?=\s{_NAME}|$)")
"""A column and its value; a copy from a terminal has blanks instead of tabs."""
_IDS = re.compile(r"[0-9]{1,10}(?:, *[0-9]{1,10})*")
_HEADING = re.compile(r"^\s*(Dynamic|All|Default) configs for (topic|brokers?) (\S+) ")
_CONFIG = re.compile(r"^\s*([a-z][a-z0-9._-]*)=(.*?)(?: sensitive=\S+(?: synonyms=\{.*\})?)?\s*$")


def _columns(line: str) -> dict[str, str]:
    """Return the columns of a line, whose values are behind their names."""
    return {name[:-1]: value.strip() for name, value in _COLUMN.findall(line)}


def read_topics(path: Path, text: str) -> FileFacts:
    """Return the topics of `kafka-topics --describe`."""
    found: dict[str, SnapshotTopic] = {}
    problems: list[UsageError] = []
    for number, line in enumerate(text.splitlines(), 1):
        columns = _columns(line)
        name = columns.get("Topic")
        if name is None:
            continue
        topic = found.setdefault(name, SnapshotTopic(name=name, partitions=()))
        if "Partition" in columns:
            partition = _partition(path, number, columns)
            found[name] = msgspec.structs.replace(topic, partitions=(*topic.partitions, partition))
        elif "Configs" in columns:
            pairs = (one.partition("=")[::2] for one in columns["Configs"].split(","))
            configs = {key.strip(): value.strip() for key, value in pairs if key.strip() in BROKER_NAMES}
            problems += value_problems(configs, f"{name}: ", dict.fromkeys(configs, number))
            found[name] = msgspec.structs.replace(topic, configs=configs)
    raise_problems(path, problems)
    return FileFacts(topics=tuple(found.values()))


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

    index, leader = ids("Partition"), columns.get("Leader", "none")
    return SnapshotPartition(
        index=index[0] if index else 0,
        leader=int(leader) if is_number(leader) else -1,
        replicas=ids("Replicas") or (),
        isr=ids("Isr") or (),
        elr=ids("Elr"),
        last_known_elr=ids("LastKnownElr"),
        adding=ids("Adding Replicas") or (),
        removing=ids("Removing Replicas") or (),
    )


def read_features(path: Path, text: str) -> FileFacts:
    """Return the finalised levels of `kafka-features describe`, and the metadata.versions that the node supports."""
    features: dict[str, int] = {}
    supported: tuple[int, int] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        columns = _columns(line)
        if "Feature" not in columns:
            continue
        names = ("SupportedMinVersion", "SupportedMaxVersion", "FinalizedVersionLevel")
        texts = [columns.get(one, "") for one in names]
        levels = [METADATA_VERSIONS.get(one, int(one) if is_number(one) else -1) for one in texts]
        if min(levels) < 0:
            got = line.strip()[:100]
            where, allowed = f"{path}:{number}", f"a line with {', '.join(names)}"
            raise UsageError("not a feature with its levels", where=where, got=got, allowed=allowed, next=_DESCRIBE)
        features[columns["Feature"]] = levels[2]
        if columns["Feature"] == METADATA_VERSION:
            supported = levels[0], levels[1]
    return FileFacts(features=features, levels=supported)


def read_configs(path: Path, text: str) -> FileFacts:
    """Return the configs of topics and brokers of `kafka-configs --describe`.

    With `--all`, a broker's values are those in force, whatever set them: they are its properties. Else they are its
    dynamic ones. A topic's values are its own with or without `--all`, because they are in force there.
    """
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    problems: list[UsageError] = []
    notes: list[str] = []
    values: dict[str, str] = {}
    whose = ""
    for number, line in enumerate(text.splitlines(), 1):
        if (heading := _HEADING.match(line)) is not None:
            values = found.setdefault((heading[1], heading[2], heading[3]), {})
            whose = "the default of all brokers" if heading[1] == "Default" else f"{heading[2]} {heading[3]}"
        elif " configs for " in line:
            values = {}
        elif (config := _CONFIG.match(line)) is not None and config[2] != "null":
            said = {config[1]: config[2]}
            problems += value_problems(said, "", {config[1]: number})
            if not problems:
                notes += join_values(values, said, whose)
    raise_problems(path, problems)
    topics = {owner: values for (_, kind, owner), values in found.items() if kind == "topic"}
    whole = {owner: values for (how, kind, owner), values in found.items() if (how, kind) == ("All", "broker")}
    return FileFacts(
        nodes=tuple(
            DescribedNode(name=f"broker {owner}", properties={**values, "node.id": owner}, in_force=True)
            for owner, values in whole.items()
        ),
        planned=tuple(
            PlannedTopic(name=name, configs={key: value for key, value in values.items() if key in BROKER_NAMES})
            for name, values in topics.items()
        ),
        broker_configs={
            int(owner) if kind == "broker" else None: values
            for (how, kind, owner), values in found.items()
            if kind != "topic" and how != "All" and (kind == "brokers" or is_number(owner))
        },
        notes=tuple(notes),
        misspelled=tuple(
            pair
            for (_, kind, _), values in found.items()
            for pair in misspelled_names(values, "topic" if kind == "topic" else "node", path.name)
        ),
    )


_LISTINGS = {
    TOPICS_LIST: ("Topic:", read_topics),
    FEATURES_LIST: ("Feature:", read_features),
    CONFIGS_LIST: (" configs for ", read_configs),
}
"""Words that only this listing has, and its reader, which passes over other lines: a file may have several listings."""
BYTES_MAX = 64 << 20


def is_of_text(path: Path) -> bool:
    """Whether a file is one of those that make a snapshot here; who reads it says what is wrong with any other."""
    try:
        return what_is(_read(path)) in READABLE
    except UnreadableFile:
        return False


def _read(path: Path) -> bytes:
    """Return the bytes of a file; UTF-16, in which PowerShell writes what a command prints, becomes UTF-8."""
    content = read_file(path, what="the file", bytes_max=BYTES_MAX)
    is_utf_16 = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    return content.decode("utf-16", "replace").encode() if is_utf_16 else content


def describe_files(paths: Sequence[Path], assumed: Mapping[str, str] | None = None) -> FileFacts:
    """Return what the files say together. Raises `UsageError` for other files, and for a line without sense.

    `assumed`: the values of `--assume` by name, which count where no file says them.
    """
    facts: list[FileFacts] = []
    strimzi: dict[Path, bytes] = {}
    nodes: dict[Path, DescribedNode] = {}
    compose: dict[Path, bytes] = {}
    for path in paths:
        content = _read(path)
        text = content.decode("utf-8-sig", "replace")
        kind = what_is(content)
        if kind in _LISTINGS:
            facts += [read(path, text) for name, (words, read) in _LISTINGS.items() if name == kind or words in text]
        elif kind == SERVER_PROPERTIES:
            alike = sum(one.name == path.name for one in paths)
            name = path.name if alike == 1 else str(path)
            node, notes = _server_properties(path, content.decode("latin-1"), name)
            nodes[path.resolve()] = node
            names = misspelled_names(node.properties, "node", name)
            facts.append(FileFacts(notes=tuple(notes), misspelled=tuple(names)))
        elif kind in (COMPOSE_FILE, STRIMZI) and len(content) <= SMALL_BYTES_MAX:
            (strimzi if kind == STRIMZI else compose)[path] = content
        elif kind in READABLE:
            raise UsageError("the file is too large", where=str(path), got=kind, allowed=f"{SMALL_BYTES_MAX:,} bytes")
        else:
            raise unknown_file_error(path, content, kind)
    mounted: set[Path] = set()
    for path, content in compose.items():
        read, used = read_compose(path, content, nodes)
        facts.append(read)
        mounted |= used
    facts.append(FileFacts(nodes=tuple(node for path, node in nodes.items() if path not in mounted)))
    if strimzi:
        facts.append(read_strimzi(strimzi))
    return msgspec.structs.replace(merged(facts), assumed=dict(assumed or {}))


def _server_properties(path: Path, text: str, name: str) -> tuple[DescribedNode, list[str]]:
    """Return the node of a file, and notes on lines without effect."""
    properties: dict[str, str] = {}
    lines: dict[str, int] = {}
    notes: list[str] = []
    for key, untrimmed, line in properties_file.properties_in(text):
        value = untrimmed.strip()
        if properties.get(key, value) != value and key in BROKER_DEFAULTS:
            notes.append(f"{name} has {key} in lines {lines[key]} and {line}: Kafka takes the last, {value}")
        properties[key], lines[key] = value, line
    raise_problems(path, list(value_problems(properties, "", lines)))
    return DescribedNode(name=name, properties=properties), [*notes, *zookeeper_notes(properties, name)]


def snapshot_of(facts: FileFacts, paths: Sequence[Path]) -> ClusterSnapshot:
    """Return the cluster that these facts of the files are of. Raises `UsageError`."""
    notes = list(facts.notes)
    if facts.topics:
        ids, topics, said = listed_topics(facts)
    else:
        ids, topics, said = plan_topics(facts)
    notes += said
    brokers, said = brokers_of(ids, facts)
    notes += said
    release = release_in(facts)
    snapshot = ClusterSnapshot(
        snapshot_version=SNAPSHOT_VERSION,
        taken_at=OF_FILES,
        cluster_id=paths[0].name + (f" and {plural(len(paths) - 1, 'more file')}" if len(paths) > 1 else ""),
        brokers=brokers,
        features=facts.features,
        controllers=voters_of(facts),
        metadata_versions=release.levels,
        topics=topics,
        assumed=(*notes, *release.notes),
        kafka=release.kafka,
        unsaid=release.unsaid,
        is_planned=not facts.topics,
        on_one_host=facts.on_one_host,
    )
    check_snapshot(snapshot, ", ".join(map(str, paths)))
    return snapshot
