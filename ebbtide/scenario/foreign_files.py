"""Recognises files of other tools, and says where their lines belong.

People give a Compose file, a server.properties or the output of kafka-topics to verbs that take a scenario, a snapshot
or a record. Every reader asks this module before it says that such a file is malformed.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import msgspec

from ebbtide import properties_file
from ebbtide.errors import UsageError
from ebbtide.scenario.kafka_settings import settings_at
from ebbtide.untrusted.files import SMALL_BYTES_MAX, UnreadableFile, read_file

SCENARIO_FILE, SNAPSHOT = "a scenario file", "a snapshot of a cluster"
TOPICS_LIST, FEATURES_LIST = "the output of kafka-topics --describe", "the output of kafka-features describe"
CONFIGS_LIST, SERVER_PROPERTIES = "the output of kafka-configs --describe", "a server.properties of Kafka"
COMPOSE_FILE, STRIMZI = "a Docker Compose file", "a Strimzi resource"
LISTINGS = (TOPICS_LIST, FEATURES_LIST, CONFIGS_LIST)
READABLE = (*LISTINGS, SERVER_PROPERTIES, COMPOSE_FILE, STRIMZI)
"""What `ebbtide advise` reads instead of a snapshot."""
CLUSTER_FILES = (
    "a file of `ebbtide advise --save`, or files of one cluster: what kafka-topics, kafka-configs and kafka-features "
    "describe, server.properties, a compose file, Strimzi resources"
)
"""The same, and a snapshot, in words."""
_NEXT_SCENARIO = "ebbtide scenarios show healthy > my.toml    (a scenario to begin with)"
_NEXT_FROM = "ebbtide scenarios from {path} > my.toml    (a scenario with its settings)"
_NEXT_WATCH = "ebbtide watch --help    (--command-config takes it)"
NEXT_ADVISE = "ebbtide advise --bootstrap broker1.example:9092    (reads a cluster)"

_CHARS_MAX = 1 << 18
"""Of a larger file only the beginning is looked at."""
_RESOURCE = re.compile(r"^kind:[ \t]*(\w+)", re.MULTILINE)
_PROPERTY = re.compile(r"[a-z][\w-]*(?:\.[\w-]+)+(?:[\s=:]|$)|[a-z]+\s*(?:[=:]|$)|[=:]", re.ASCII | re.IGNORECASE)
_ONLY_OF_NODES = frozenset({"process.roles", "node.id", "broker.id", "log.dirs", "controller.quorum.voters"})
_OF_CLIENTS = frozenset({"bootstrap.servers", "security.protocol", "group.id", "acks", "key.serializer", "client.id"})


class _FileKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of file: a pattern that such a file has, what it is, where its lines belong, and what to type next."""

    pattern: re.Pattern[str]
    what: str
    belongs: str
    next: str

    def error(self, path: str, text: str, wanted: str) -> UsageError:
        """Return the error for the file at `path` in the place of what was `wanted`."""
        resource = _RESOURCE.search(text)
        what = self.what.format(kind="resource" if resource is None else resource[1])
        next_ = self.next.format(path=shlex.quote(path))
        return UsageError(f"this is {what}, not {wanted}", where=path, allowed=self.belongs, next=next_)


def foreign_file_error(path: str, content: str | bytes, wanted: str) -> UsageError | None:
    """Return the error for a file of another kind than `wanted`, such as `a scenario file`; None for other files."""
    text = _beginning(content)
    found = _kind_of(text)
    return None if found is None or found.what == wanted else found.error(path, text, wanted)


def what_is(content: str | bytes) -> str | None:
    """Return what a file is, such as `a server.properties of Kafka`; None if Ebbtide does not know it."""
    found = _kind_of(_beginning(content))
    return None if found is None else found.what


def _beginning(content: str | bytes) -> str:
    return content[:_CHARS_MAX].decode("utf-8-sig", "replace") if isinstance(content, bytes) else content[:_CHARS_MAX]


def _kind_of(text: str) -> _FileKind | None:
    return next((kind for kind in _KINDS if kind.pattern.search(text) is not None), None) or _properties_file(text)


def foreign_error_at(path: Path, wanted: str) -> UsageError | None:
    """Return the same for a path, for a reader that reads no file; None also for a path that is no small file."""
    try:
        return foreign_file_error(str(path), read_file(path, bytes_max=SMALL_BYTES_MAX), wanted)
    except UnreadableFile:
        return None


def _properties_file(text: str) -> _FileKind | None:
    """Return what a .properties file is: of a node, or of a client."""
    lines = properties_file.logical_lines(text)
    if not lines or any(_PROPERTY.match(line) is None for _, line in lines):
        return None
    try:
        found = properties_file.parse(text)
    except UsageError:
        return None
    if _OF_CLIENTS & found.keys() and not _ONLY_OF_NODES & found.keys():
        return _OF_A_CLIENT
    return _OF_A_NODE if settings_at("node").keys() & found.keys() else None


_IN_TOPICS = (
    "a scenario has a topic's settings under [topics.NAME], and a node's in broker_properties and "
    "controller_properties of [cluster]"
)
_A_CLUSTER = "`ebbtide advise --bootstrap` reads a cluster itself; a scenario describes one of its own"


def _kind(pattern: str, what: str, belongs: str, next: str = _NEXT_SCENARIO) -> _FileKind:
    return _FileKind(pattern=re.compile(pattern, re.MULTILINE), what=what, belongs=belongs, next=next)


_OF_A_NODE = _kind("", SERVER_PROPERTIES, _IN_TOPICS, _NEXT_FROM)
_OF_A_CLIENT = _kind(
    "",
    "a properties file of Kafka's clients",
    "its lines belong under [[producers]] and [[consumers]] of a scenario; a watch takes the file itself",
    _NEXT_WATCH,
)
_KINDS = (
    _kind(r"^[ \t]*Topic:[ \t]*\S+\s.*Partition(?:Count)?:", TOPICS_LIST, _IN_TOPICS, _NEXT_FROM),
    _kind(r"^Feature:[ \t]*\S+[ \t]+SupportedMinVersion:", FEATURES_LIST, _A_CLUSTER, NEXT_ADVISE),
    _kind(r"^[ \t]*(?:Dynamic|All|Default) configs for ", CONFIGS_LIST, _IN_TOPICS, _NEXT_FROM),
    _kind(r"^GROUP\s+TOPIC\s+PARTITION\s", "the output of kafka-consumer-groups --describe", _A_CLUSTER, NEXT_ADVISE),
    _kind(
        r"^ClusterId:\s|^NodeId\s+(?:DirectoryId\s+)?LogEndOffset",
        "the output of kafka-metadata-quorum",
        _A_CLUSTER,
        NEXT_ADVISE,
    ),
    _kind(r"^Metadata for \S.* \(from broker ", "the output of kcat -L", _A_CLUSTER, NEXT_ADVISE),
    _kind(
        r"^apiVersion:[ \t]*[\"']?chaos-mesh\.org",
        "a Chaos Mesh {kind}",
        "its fault belongs under [[steps]] of a scenario; `ebbtide cluster fault --help` lists the kinds",
    ),
    # YAML may be in its flow style, which JSON is, too.
    _kind(
        r"(?:^[- \t]*|\A\s*\{[\s\S]*)[\"']?apiVersion[\"']?:[ \t]*[\"']?kafka\.strimzi\.io",
        STRIMZI,
        _IN_TOPICS,
        _NEXT_FROM,
    ),
    _kind(r"^apiVersion:", "a Kubernetes {kind}", _IN_TOPICS),
    _kind(r"^services:\s*(?:#.*)?$|\A\s*\{[\s\S]*[\"']?services[\"']?:\s*\{", COMPOSE_FILE, _IN_TOPICS, _NEXT_FROM),
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
