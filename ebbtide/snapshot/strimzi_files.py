"""Reads the resources of Strimzi: Kafka, KafkaNodePool and KafkaTopic, of several files together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ebbtide.errors import EbbtideError, UsageError
from ebbtide.releases.feature_levels import METADATA_VERSIONS
from ebbtide.releases.known_releases import METADATA_VERSION
from ebbtide.shown_text import some_of
from ebbtide.snapshot.described import (
    BROKER,
    CONTROLLER,
    DROPPED,
    DescribedNode,
    FileFacts,
    PlannedTopic,
    file_error,
    raise_problems,
    value_problems,
    zookeeper_error,
)
from ebbtide.snapshot.model import BROKER_NAMES
from ebbtide.snapshot.setting_names import misspelled_keys, misspelled_names
from ebbtide.untrusted.yaml_files import YamlValue, read_documents

_GROUP = "kafka.strimzi.io/"
_CLUSTER = "strimzi.io/cluster"
_NODES_MAX = 1_000
_OF_STRIMZI = ("node.id", "process.roles", "broker.", "controller.", "log.dir", "zookeeper.")
_KEYS = {
    "Kafka": ("version", "metadataVersion", "replicas", "config", "storage", "rack"),
    "KafkaNodePool": ("replicas", "roles", "storage"),
    "KafkaTopic": ("topicName", "partitions", "replicas", "config"),
}
"""What is read of the `spec` of each resource; of Kafka, of its `spec.kafka`."""


def read_strimzi(contents: Mapping[Path, bytes]) -> FileFacts:
    """Return the cluster of the resources. Raises one `UsageError` with all that is wrong in the first wrong file."""
    found: dict[str, list[YamlValue]] = {kind: [] for kind in _KEYS}
    for path, content in contents.items():
        resources = [one for document in read_documents(path, content) for one in _resources(document)]
        raise_problems(path, [error for one in resources for error in _problems(one)])
        for one in resources:
            found[one.at("kind").text or ""].append(one)
    name = _cluster_name(contents, found)
    ours = {kind: [one for one in of_kind if _is_of(one, name)] for kind, of_kind in found.items()}
    _raise_twice(contents, ours)
    kafka = next(iter(found["Kafka"]), YamlValue(content=None, line=0))
    spec = kafka.at("spec", "kafka")
    pools, topics = ours["KafkaNodePool"], ours["KafkaTopic"]
    release, level = spec.at("version").text, spec.at("metadataVersion").text
    # Kafka takes `3.9` for the newest level of that release.
    levels = [number for name, number in METADATA_VERSIONS.items() if level in (name, name.partition("-")[0])]
    nodes, notes = _nodes(spec, pools, name)
    unknown = [] if level is None or levels else [f"Ebbtide does not know the metadataVersion {level}"]
    unready = [note for of_kind in ours.values() for one in of_kind for note in _unready(one)]
    notes = [*_dropped(found, name), *unready, *unknown, *notes]
    return FileFacts(
        nodes=nodes,
        is_whole=any(node.id is not None for node in nodes),
        rolls=True,
        planned=tuple(map(_topic, topics)),
        features={METADATA_VERSION: levels[-1]} if levels else {},
        releases=() if release is None else (release,),
        notes=tuple(notes),
        misspelled=tuple(pair for of_kind in ours.values() for one in of_kind for pair in _misspelled(one)),
    )


def _resources(document: YamlValue) -> Iterator[YamlValue]:
    """Yield the resources that count, also those of a list as `kubectl get` prints it."""
    for one in document.at("items").items or [document]:
        is_ours = (one.at("apiVersion").text or "").startswith(_GROUP)
        if is_ours and one.at("kind").text in _KEYS:
            yield one


def _cluster_name(contents: Mapping[Path, bytes], found: Mapping[str, Sequence[YamlValue]]) -> str | None:
    """Return the name of the one cluster that the resources are of; None if none says it."""
    names = {one.at("metadata", "name").text for one in found["Kafka"]} - {None}
    if not names:
        names = {_label(one) for one in (*found["KafkaNodePool"], *found["KafkaTopic"])} - {None}
    if len(names) > 1:
        raise UsageError(
            "these resources are of several clusters",
            where=", ".join(map(str, contents)),
            got=", ".join(sorted(filter(None, names))[:5]),
            allowed="the resources of one cluster",
        )
    return next(iter(names), None)


def _raise_twice(contents: Mapping[Path, bytes], found: Mapping[str, Sequence[YamlValue]]) -> None:
    """Raise `UsageError` for resources with one name: nothing says which of them counts."""
    named = Counter(f"{kind} {one.at('metadata', 'name').text}" for kind, of_kind in found.items() for one in of_kind)
    if twice := [name for name, count in named.items() if count > 1]:
        where, allowed = ", ".join(map(str, contents)), "each resource of a cluster once"
        raise UsageError("a resource is there twice", where=where, got=some_of(twice, 3), allowed=allowed)


def _spec(resource: YamlValue) -> YamlValue:
    return resource.at("spec", "kafka") if resource.at("kind").text == "Kafka" else resource.at("spec")


def _misspelled(resource: YamlValue) -> Iterator[tuple[str, str]]:
    """Yield sentences on settings and keys of a resource that were not read, although they were probably meant."""
    kind, spec = resource.at("kind").text or "", _spec(resource)
    owner = f"{kind} {resource.at('metadata', 'name').text}"
    yield from misspelled_keys(spec.table, _KEYS[kind], owner)
    yield from misspelled_names(spec.at("config").table, "topic" if kind == "KafkaTopic" else "node", owner)


def _unready(resource: YamlValue) -> Iterator[str]:
    """Yield that the operator could not bring about what a resource asks for, such as more replicas of a topic."""
    for one in resource.at("status", "conditions").items:
        if (one.at("type").text, one.at("status").text) in (("NotReady", "True"), ("Ready", "False")):
            owner = f"{resource.at('kind').text} {resource.at('metadata', 'name').text}"
            why = one.at("message").text or one.at("reason").text or "no reason is given"
            yield f"{owner} is not ready, so the cluster may not be as it says: {' '.join(why.split())}"


def _label(resource: YamlValue) -> str | None:
    return resource.at("metadata", "labels", _CLUSTER).text


def _is_of(resource: YamlValue, cluster: str | None) -> bool:
    """Whether a resource is of this cluster. Strimzi ignores pools and topics without the label.

    Pools of no cluster count where nothing names one, because somebody may show the pools alone.
    """
    kind, label = resource.at("kind").text, _label(resource)
    return kind == "Kafka" or (label == cluster and (label is not None or kind == "KafkaNodePool"))


def _dropped(found: Mapping[str, Sequence[YamlValue]], cluster: str | None) -> Iterator[str]:
    """Yield the resources that are labelled for another cluster, or for none: Strimzi ignores these."""
    for kind in ("KafkaNodePool", "KafkaTopic"):
        others: dict[str | None, list[str]] = {}
        for one in found[kind]:
            if not _is_of(one, cluster):
                others.setdefault(_label(one), []).append(one.at("metadata", "name").text or "")
        for label, names in others.items():
            why = f"is {label}, and not {cluster}" if label else "is no label of it, so Strimzi ignores it"
            yield f"{DROPPED}{kind} {some_of(names, 3)}: {_CLUSTER} {why}"


def _config(values: YamlValue) -> dict[str, str]:
    """Return the settings without those that Strimzi ignores, because it sets them itself."""
    said = {name: _shown(one) for name, one in values.table.items() if one.content is not None}
    return {name: value for name, value in said.items() if not name.startswith(_OF_STRIMZI)}


def _shown(value: YamlValue) -> str:
    return "a list or a table" if value.text is None else value.text


def _problems(resource: YamlValue) -> Iterator[EbbtideError]:
    kind, name = resource.at("kind").text, resource.at("metadata", "name").text
    where = f"{kind} {name}: "
    is_kafka = kind == "Kafka"
    spec = _spec(resource)
    config = spec.at("config")
    yield from value_problems(_config(config), where, {key: one.line for key, one in config.table.items()})
    for value in (spec.at("replicas"), spec.at("partitions")):
        if value.content is not None and not re.fullmatch(r"-1|[0-9]{1,6}", value.text or ""):
            yield file_error("not a number", where[:-2], value.line, _shown(value), None)
    roles = {one.text for one in spec.at("roles").items}
    if kind == "KafkaNodePool" and spec.table and (not roles or roles - {BROKER, CONTROLLER}):
        got = ", ".join(sorted(one or "" for one in roles)) or None
        yield file_error("not the roles of a node", f"{where}roles", spec.at("roles").line, got, "broker, controller")
    kraft = resource.at("metadata", "annotations", "strimzi.io/kraft").text
    if is_kafka and resource.at("spec", "zookeeper").content is not None and kraft not in ("enabled", "migration"):
        yield zookeeper_error(where[:-2], resource.at("spec", "zookeeper").line)


def _nodes(
    spec: YamlValue, pools: Sequence[YamlValue], cluster: str | None
) -> tuple[tuple[DescribedNode, ...], list[str]]:
    """Return the nodes of the pools, by the names of their pods.

    Ids are given in the order of the pools, as Strimzi gives them to new ones.
    """
    config = _config(spec.at("config"))
    roles = [",".join(role.text or "" for role in one.at("spec", "roles").items) for one in pools]
    groups = [(one.at("metadata", "name").text or "", one.at("spec"), of) for one, of in zip(pools, roles, strict=True)]
    groups = groups or [("kafka", spec, "broker")]
    if not pools and spec.at("replicas").text is None:
        return ((DescribedNode(name="kafka", properties=config),) if config else ()), []
    nodes: list[DescribedNode] = []
    notes: list[str] = []
    empty: list[str] = []
    for pool, values, role in groups:
        name = pool if cluster is None else f"{cluster}-{pool}"
        count = int(values.at("replicas").text or "0")
        storage = values.at("storage")
        volumes = storage.at("volumes").items if storage.at("type").text == "jbod" else [storage]
        is_empty = any(one.at("type").text == "ephemeral" for one in volumes)
        empty += [pool] if count > 0 and is_empty else []
        emptied = frozenset(role.split(",") if is_empty else ())
        for _ in range(min(max(count, 0), _NODES_MAX - len(nodes))):
            own = {"node.id": str(len(nodes)), "process.roles": role}
            nodes.append(DescribedNode(name=f"{name}-{len(nodes)}", properties={**config, **own}, emptied=emptied))
    if empty:
        notes.append(
            f"the storage of {' and '.join(empty)} is ephemeral: a new pod, as of a rolling update, has an empty disk"
        )
    if (key := spec.at("rack", "topologyKey").text) is not None:
        notes.append(f"racks are those of {key}: which node is where, the files do not say")
    if nodes:
        notes.append(f"the ids of nodes are assumed: {nodes[0].name} to {nodes[-1].name}")
    return tuple(nodes), notes


def _topic(resource: YamlValue) -> PlannedTopic:
    spec = resource.at("spec")
    count, factor = (int(spec.at(key).text or "-1") for key in ("partitions", "replicas"))
    return PlannedTopic(
        name=spec.at("topicName").text or resource.at("metadata", "name").text or "",
        partitions=count if count > 0 else None,
        factor=factor if factor > 0 else None,
        configs={name: value for name, value in _config(spec.at("config")).items() if name in BROKER_NAMES},
    )
