"""Makes a snapshot of what people have at hand instead of a cluster: Kafka's listings, and files that make clusters.

Several files are of one cluster. What they do not say is assumed in the weakest way, and a note says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ebbtide import properties_file
from ebbtide.errors import UsageError
from ebbtide.releases.feature_levels import METADATA_VERSIONS
from ebbtide.releases.known_releases import ELR_VERSION, METADATA_VERSION
from ebbtide.scenario.foreign_files import COMPOSE_FILE, LISTINGS, READABLE, SERVER_PROPERTIES, STRIMZI, what_is
from ebbtide.shown_text import plural, some_of
from ebbtide.snapshot.compose_files import read_compose
from ebbtide.snapshot.described import (
    BROKER_DEFAULTS,
    DescribedNode,
    FileFacts,
    PlannedTopic,
    is_number,
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
_BESIDE = re.compile(
    r"\s*(?:$|#|--\S)|.*\bkafka-(?:topics|configs|features)\S*\s.*-|.*[$#>%]\s*(?:exit)?$"
    r"|(?!.*\b(?:ERROR|FATAL)\b).*\b(?:TRACE|DEBUG|INFO|WARN)\b|.*\blevel=(?:info|warning)\b"
    r"|.* VM warning: |\[[^\]]*\]\[(?:info|warning)|(?i:warning|note|deprecated)\b|SLF4J|Picked up |-Dlog4j"
    r"|To use a Log4j 2|You can also use the \S*log4j2|Defaulted container |Unable to use a TTY|If you don't see a "
)
"""What shells, loggers, the JVM, Kafka's scripts and kubectl print beside a listing."""
_TRACE = re.compile(r"\s+at \S|\s*\.\.\. [0-9]+ |(?:Caused by: )?[a-z]\w*(?:\.[\w$]+)+(?:Exception|Error)\b")
"""A line of the exception that a logged line is about."""
_STRANGE_MAX, _BESIDE_MAX = 3, 1_000
BYTES_MAX = 64 << 20


def read_listings(path: Path, text: str) -> Iterator[FileFacts]:
    """Yield what the listings of a file say. Raises one `UsageError` with all that is wrong.

    Tools warn and log into the same stream. Any other line that no listing has is an error, because nobody knows what
    it hides.
    """
    problems: list[UsageError] = []
    facts: list[FileFacts] = []
    partitions: dict[str, list[SnapshotPartition]] = {}
    heads: dict[str, tuple[int, dict[str, str]]] = {}
    sections: list[tuple[re.Match[str] | None, dict[str, str]]] = []
    strange: list[UsageError] = []
    in_section = is_beside = False
    for number, line in enumerate(text.splitlines(), 1):
        columns = {name[:-1]: value.strip() for name, value in _COLUMN.findall(line)}
        was_beside, is_beside = is_beside, False
        if " configs for " in line:
            sections.append((_HEADING.match(line), {}))  # None: of users, groups and others
            in_section = True
        elif {"Topic", "Feature"} & columns.keys():
            in_section = False
            if "Feature" in columns:
                facts.append(_feature(number, columns, problems))
            elif "Partition" in columns:
                partitions.setdefault(columns["Topic"], []).append(_partition(number, columns, problems))
            else:
                heads[columns["Topic"]] = number, columns
        elif in_section and (config := _CONFIG.match(line)) is not None:
            heading, values = sections[-1]
            if heading is not None and config[2] != "null":
                problems += value_problems({config[1]: config[2]}, "", {config[1]: number})
                values[config[1]] = config[2]
        elif (was_beside and _TRACE.match(line)) or _BESIDE.match(line[:_BESIDE_MAX]):
            is_beside = True
        elif not (in_section and sections[-1][0] is None and line[:1] in " \t"):
            allowed = "what Kafka's tools print; delete the line if it says nothing about the cluster"
            strange.append(_wrong("no line of a listing", number, line.strip(), allowed))
    facts.append(FileFacts(topics=tuple(_topics(partitions, heads, problems))))
    raise_problems(path, [*strange[:_STRANGE_MAX], *problems])
    yield from facts
    if uncounted := [name for name in partitions if name not in heads]:
        them = some_of(uncounted, 3)
        yield FileFacts(unread=(f"{path.name} has no PartitionCount of {them}: there may be more partitions",))
    yield from (_section(heading, values, path.name) for heading, values in sections if heading is not None)


def _wrong(what: str, line: int, got: str, allowed: str) -> UsageError:
    return UsageError(what, where="the listing", got=got[:100], allowed=allowed).at_line(line)


def _topics(
    partitions: Mapping[str, Sequence[SnapshotPartition]],
    heads: Mapping[str, tuple[int, Mapping[str, str]]],
    problems: list[UsageError],
) -> Iterator[SnapshotTopic]:
    """Yield the topics; one with fewer partitions than its line counts is wrong."""
    for name in dict.fromkeys((*heads, *partitions)):
        found, configs = tuple(dict.fromkeys(partitions.get(name, ()))), dict[str, str]()
        if name in heads:
            line, columns = heads[name]
            count = columns.get("PartitionCount", "")
            if not is_number(count) or len(found) < int(count):
                got = f"{len(found)} of {name}, whose PartitionCount is {count or 'not there'}"
                problems.append(_wrong("partitions are missing", line, got, _LIST))
            pairs = (one.partition("=")[::2] for one in columns.get("Configs", "").split(","))
            configs = {key.strip(): value.strip() for key, value in pairs if key.strip() in BROKER_NAMES}
            problems += value_problems(configs, f"{name}: ", dict.fromkeys(configs, line))
        yield SnapshotTopic(name=name, partitions=found, configs=configs)


def _partition(line: int, columns: Mapping[str, str], problems: list[UsageError]) -> SnapshotPartition:
    def ids(name: str, default: str = "N/A") -> tuple[int, ...] | None:
        text = columns.get(name, default)
        if text == "N/A":
            return None
        if text and not _IDS.fullmatch(text):
            problems.append(_wrong("not ids of brokers", line, f"{name}: {text}", f"ids such as 1,2,3, of {_LIST}"))
            return ()
        return tuple(int(one) for one in text.split(",") if one)

    leader = columns.get("Leader", "")
    if not is_number(leader) and leader not in ("none", "-1"):
        problems.append(_wrong("no leader", line, f"Leader: {leader}", "the id of a broker, or none"))
    index, isr = ids("Partition"), ids("Isr", "no column") or ()
    # Confluent's observers are replicas that are no candidates for the ISR, so they keep no acked record.
    observers = {*(ids("Observers") or ids("LiveObservers") or ())} - {*isr}
    return SnapshotPartition(
        index=index[0] if index else 0,
        leader=int(leader) if is_number(leader) else -1,
        replicas=tuple(one for one in ids("Replicas", "no column") or () if one not in observers),
        isr=isr,
        elr=ids("Elr"),
        last_known_elr=ids("LastKnownElr"),
        adding=ids("Adding Replicas") or (),
        removing=ids("Removing Replicas") or (),
    )


def _feature(line: int, columns: Mapping[str, str], problems: list[UsageError]) -> FileFacts:
    """Return the finalised level of a feature, and the metadata.versions that the node supports."""
    names = ("SupportedMinVersion", "SupportedMaxVersion", "FinalizedVersionLevel")
    texts = [columns.get(one, "") for one in names]
    lowest, highest, level = [METADATA_VERSIONS.get(one, int(one) if is_number(one) else -1) for one in texts]
    if min(lowest, highest, level) < 0:
        got, allowed = ", ".join(texts), f"a line with {', '.join(names)}, of {_DESCRIBE}"
        problems.append(_wrong("not a feature with its levels", line, f"{columns['Feature']}: {got}", allowed))
    levels = (lowest, highest) if columns["Feature"] == METADATA_VERSION else None
    return FileFacts(features={columns["Feature"]: level}, levels=levels)


def _section(heading: re.Match[str], values: dict[str, str], file: str) -> FileFacts:
    """Return the configs of a topic or broker.

    With `--all`, a broker's values are those in force, whatever set them: they are its properties. Else they are its
    dynamic ones. A topic's values are its own with or without `--all`, because they are in force there.
    """
    how, kind, owner = heading.groups()
    wrong = tuple(misspelled_names(values, "topic" if kind == "topic" else "node", file))
    if kind == "topic":
        configs = {key: value for key, value in values.items() if key in BROKER_NAMES}
        return FileFacts(planned=(PlannedTopic(name=owner, configs=configs, exists=True),), misspelled=wrong)
    if how == "All" and kind == "broker":
        node = DescribedNode(name=f"broker {owner}", properties={**values, "node.id": owner}, in_force=True)
        return FileFacts(nodes=(node,), misspelled=wrong)
    whose = None if kind == "brokers" else int(owner) if is_number(owner) else -1
    return FileFacts(broker_configs={whose: values}, misspelled=wrong)


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
        kind = what_is(content)
        if kind in LISTINGS:
            facts += read_listings(path, content.decode("utf-8", "replace").replace("\ufeff", ""))
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
    on_hosts = tuple(node for path, node in nodes.items() if path not in mounted)
    facts.append(
        FileFacts(nodes=on_hosts, notes=tuple(note for node in on_hosts for note in _emptied_by_a_reboot(node)))
    )
    if strimzi:
        facts.append(read_strimzi(strimzi))
    found = merged(facts)
    has_eligible = any(one.elr for topic in found.topics for one in topic.partitions)
    features = {ELR_VERSION: 1} if has_eligible and found.levels is None else {}  # only an ELR that is on has members
    return msgspec.structs.replace(found, assumed=dict(assumed or {}), features=features | found.features)


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


def _emptied_by_a_reboot(node: DescribedNode) -> Iterator[str]:
    """Yield a note on logs in /tmp of a host; what keeps those of a container is in its compose file."""
    log_dirs = node.properties.get("log.dirs") or node.properties.get("log.dir", "/tmp/kafka-logs")
    if any(one.strip().startswith("/tmp") for one in log_dirs.split(",")):
        yield f"{node.name} keeps its log in {log_dirs}, which a reboot may empty: then a power loss takes the disk"


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
    kafka, levels, unsaid, said = release_in(facts)
    notes += said
    voters = voters_of(facts, ids)
    snapshot = ClusterSnapshot(
        snapshot_version=SNAPSHOT_VERSION,
        taken_at=OF_FILES,
        cluster_id=paths[0].name + (f" and {plural(len(paths) - 1, 'more file')}" if len(paths) > 1 else ""),
        brokers=brokers,
        features=facts.features,
        controllers=voters,
        metadata_versions=levels,
        topics=topics,
        notes=facts.unread,
        assumed=tuple(notes),
        kafka=kafka,
        unsaid=unsaid,
        is_planned=not facts.topics,
        on_one_host=facts.on_one_host,
        rolls=facts.rolls,
        knows_controllers=voters is not None and set() < {*voters} <= {one.id for one in facts.controllers},
    )
    check_snapshot(snapshot, ", ".join(map(str, paths)))
    return snapshot
