"""Recognises files of other tools, and says where their lines belong.

People give a Compose file, a server.properties or the output of kafka-topics to verbs that take a scenario, a snapshot
or a record. Every reader asks this module before it says that such a file is malformed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ebbtide import properties_file
from ebbtide.errors import UsageError
from ebbtide.scenario.absent_words import absent_word
from ebbtide.scenario.kafka_settings import kafka_properties, refused_kind
from ebbtide.untrusted.files import SMALL_BYTES_MAX, UnreadableFile, read_file

SCENARIO_FILE, SNAPSHOT = "a scenario file", "a snapshot of a cluster"
_NEXT_SCENARIO = "ebbtide scenarios show healthy > my.toml    (a scenario to begin with)"
_NEXT_WATCH = "ebbtide watch --help    (--command-config takes it)"
_NEXT_ADVISE = "ebbtide advise --bootstrap broker1.example:9092    (reads a cluster)"
_KAFKAS_DEFAULT = "1"
"""What Kafka's own defaults of partitions, replication factor and min ISR are."""

_CHARS_MAX = 1 << 18
"""Of a larger file only the beginning is looked at."""
_NAMES_MAX = 3
"""So many names of a group are shown."""

_DOTTED = r"[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)+"
_YAML_PROPERTY = re.compile(rf"^[ \t]+[\"']?({_DOTTED})[\"']?:\s*(\S.*)$", re.MULTILINE)
_ENVIRONMENT = re.compile(r"^[ \t]*-?[ \t]*[\"']?KAFKA_(?:CFG_)?([A-Z][A-Z0-9_]*)\s*[:=]\s*(.*)$", re.MULTILINE)
_IMAGE = re.compile(r"^[ \t]*image:\s*[\"']?\S*kafka\S*:v?(\d+\.\d+\.\d+)", re.MULTILINE)
_VERSION = re.compile(r"^[ \t]+version:\s*[\"']?(\d+\.\d+\.\d+)", re.MULTILINE)
_TOPIC = re.compile(r"^[ \t]*Topic:\s*(\S+)\s.*PartitionCount:\s*(\d+)\s+ReplicationFactor:\s*(\d+)(.*)$", re.MULTILINE)
_RESOURCE = re.compile(r"^kind:[ \t]*(\w+)", re.MULTILINE)
_MIN_ISR = re.compile(r"min\.insync\.replicas=(\d+)")
_OF_CLIENTS = frozenset({"bootstrap.servers", "security.protocol", "group.id", "acks", "key.serializer", "client.id"})


class ForeignFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a file is, such as `a Docker Compose file`, where its lines belong, and what to type next with it."""

    what: str
    belongs: str
    next: str

    def error(self, path: str, wanted: str) -> UsageError:
        """Return the error for the file at `path` in the place of what was `wanted`."""
        next_ = self.next.format(path=shlex.quote(path))
        return UsageError(f"this is {self.what}, not {wanted}", where=path, allowed=self.belongs, next=next_)


class _FileKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of file: a pattern that such a file has, what it is, and how to say where its lines belong."""

    pattern: re.Pattern[str]
    what: str
    belongs: Callable[[str], str]
    next: str


def foreign_file_error(path: str, content: str | bytes, wanted: str) -> UsageError | None:
    """Return the error for a file of another kind than `wanted`, such as `a scenario file`; None for other files."""
    found = _recognise(content)
    return None if found is None or found.what == wanted else found.error(path, wanted)


def foreign_error_at(path: Path, wanted: str) -> UsageError | None:
    """Return the same for a path, for a reader that reads no file; None also for a path that is no small file."""
    try:
        return foreign_file_error(str(path), read_file(path, bytes_max=SMALL_BYTES_MAX), wanted)
    except UnreadableFile:
        return None


def _recognise(content: str | bytes) -> ForeignFile | None:
    text = content[:_CHARS_MAX].decode("utf-8", "replace") if isinstance(content, bytes) else content[:_CHARS_MAX]
    for kind in _KINDS:
        if kind.pattern.search(text) is not None:
            resource = _RESOURCE.search(text)
            what = kind.what.format(kind="resource" if resource is None else resource[1])
            return ForeignFile(what=what, belongs=kind.belongs(text), next=kind.next)
    return _properties_file(text)


def _properties_file(text: str) -> ForeignFile | None:
    """Return what a .properties file is: of a node, or of a client."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and line.strip()[0] not in "#!"]
    if not lines or any(re.match(rf"(?:{_DOTTED}|[a-z]+)\s*[=:]", line) is None for line in lines):
        return None
    try:
        found = properties_file.parse("\n".join(lines))
    except UsageError:
        return None
    if not any("." in name for name in found):
        return None
    if _OF_CLIENTS & found.keys():
        belongs = "its lines belong under [[producers]] and [[consumers]] of a scenario; a watch takes the file itself"
        return ForeignFile(what="a properties file of Kafka's clients", belongs=belongs, next=_NEXT_WATCH)
    return ForeignFile(what="a server.properties of Kafka", belongs=_places(found), next=_NEXT_SCENARIO)


def _places(properties: Mapping[str, str], release: str | None = None) -> str:
    """Return where in a scenario lines with these properties belong."""
    groups: dict[str, list[str]] = {}
    known = kafka_properties()
    for name in properties:
        kind = refused_kind("node", name)
        if kind is not None and kind.of_records:
            groups.setdefault("set by Ebbtide itself", []).append(name)
        elif kind or absent_word(name, "properties") is not None or known.obeyer_of(name) == "nobody":
            groups.setdefault("left out", []).append(name)
        elif name not in known.topic_keys:
            role = "controller" if known.obeyer_of(name) == "controllers" else "broker"
            groups.setdefault(f"in {role}_properties of [cluster]", []).append(name)
    # Ebbtide's own defaults are others.
    keys = (f"{key} = {properties.get(name, _KAFKAS_DEFAULT)}" for name, key in known.topic_keys.items())
    said = [f'kafka = ["{release}"]'] if release else []
    said += [f"{', '.join(keys)} under [topics.NAME]"]
    said += [f"{_some(names)} {place}" for place, names in sorted(groups.items())]
    return f"its lines belong in a scenario: {'; '.join(said)}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_MAX
    return ", ".join(names[:_NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


def _of_compose(text: str) -> str:
    found = {_property_of(name): _plain(value) for name, value in _ENVIRONMENT.findall(text)}
    image = _IMAGE.search(text)
    # Other variables of the image set no property: KAFKA_HEAP_OPTS, KAFKA_CLUSTER_ID.
    others = {name for name in found if name.endswith((".opts", "cluster.id")) or name.startswith("jmx.")}
    kept = {name: value for name, value in found.items() if name not in others}
    return _places(kept, None if image is None else image[1])


def _property_of(variable: str) -> str:
    """Return the property of an environment variable, as Kafka's own image spells it."""
    return variable.lower().replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def _of_resource(text: str) -> str:
    found = {name: _plain(value) for name, value in _YAML_PROPERTY.findall(text)}
    version = _VERSION.search(text)
    return _places(found, None if version is None else version[1])


def _plain(value: str) -> str:
    return value.split(" #")[0].strip().strip("\"'")


def _of_topics(text: str) -> str:
    said = list(_topic_tables(text))
    shown = "; ".join(said[:_NAMES_MAX]) + ("; ..." if len(said) > _NAMES_MAX else "")
    return f"its lines belong in a scenario: {shown or '[topics.NAME]'}"


def _topic_tables(text: str) -> Iterator[str]:
    for name, partitions, factor, configs in _TOPIC.findall(text):
        min_isr = _MIN_ISR.search(configs)
        more = "" if min_isr is None else f", min_isr = {min_isr[1]}"
        yield f"[topics.{name}] partitions = {partitions}, replication_factor = {factor}{more}"


def _says(sentence: str) -> Callable[[str], str]:
    return lambda _: sentence


_IN_TOPICS = "a topic's settings belong under [topics.NAME] of a scenario, a node's in broker_properties of [cluster]"
_A_CLUSTER = "`ebbtide advise --bootstrap` reads a cluster itself; a scenario describes one of its own"


def _kind(pattern: str, what: str, belongs: Callable[[str], str] | str, next: str = _NEXT_SCENARIO) -> _FileKind:
    says = _says(belongs) if isinstance(belongs, str) else belongs
    return _FileKind(pattern=re.compile(pattern, re.MULTILINE), what=what, belongs=says, next=next)


_KINDS = (
    _kind(r"^[ \t]*Topic:[ \t]*\S+\s.*Partition(?:Count)?:", "the output of kafka-topics --describe", _of_topics),
    _kind(r"^(?:Dynamic|All|Default) configs for ", "the output of kafka-configs --describe", _IN_TOPICS),
    _kind(r"^GROUP\s+TOPIC\s+PARTITION\s", "the output of kafka-consumer-groups --describe", _A_CLUSTER, _NEXT_ADVISE),
    _kind(
        r"^ClusterId:\s|^NodeId\s+(?:DirectoryId\s+)?LogEndOffset",
        "the output of kafka-metadata-quorum",
        _A_CLUSTER,
        _NEXT_ADVISE,
    ),
    _kind(r"^Metadata for \S.* \(from broker ", "the output of kcat -L", _A_CLUSTER, _NEXT_ADVISE),
    _kind(
        r"^apiVersion:[ \t]*[\"']?chaos-mesh\.org",
        "a Chaos Mesh {kind}",
        "its fault belongs under [[steps]] of a scenario; `ebbtide cluster fault --help` lists the kinds",
    ),
    _kind(r"^apiVersion:[ \t]*[\"']?kafka\.strimzi\.io", "a Strimzi {kind} resource", _of_resource),
    _kind(r"^apiVersion:", "a Kubernetes {kind}", _of_resource),
    _kind(r"^services:\s*(?:#.*)?$", "a Docker Compose file", _of_compose),
    _kind(
        r'\A\s*\{(?=[\s\S]*"partitions"\s*:)(?=[\s\S]*"replicas"\s*:)(?=[\s\S]*"topic"\s*:)(?![\s\S]*"snapshot_version")',
        "a plan of kafka-reassign-partitions",
        "each of its lines is a step `reassign` of a scenario, with `partition` and `replicas`",
    ),
    _kind(
        r'\A\s*[\[{](?=[\s\S]*"upstream"\s*:)(?=[\s\S]*"listen"\s*:)',
        "a configuration of Toxiproxy",
        "a scenario has proxies of its own; its faults belong under [[steps]]",
    ),
    _kind(r'\A\s*\{\s*"snapshot_version"\s*:', SNAPSHOT, "`ebbtide advise` reads it", "ebbtide advise {path}"),
    _kind(
        r"^\[\[(?:producers|steps|predictions)\]\]",
        SCENARIO_FILE,
        "`ebbtide run` runs it",
        "ebbtide scenarios check {path}",
    ),
)
