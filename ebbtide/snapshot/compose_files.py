"""Reads the Kafka nodes of a compose file, for the images that people use.

Each image turns environment variables into properties in its own way; the image's tag says the release.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ebbtide.errors import EbbtideError, UsageError
from ebbtide.shown_text import plural, some_of
from ebbtide.snapshot.described import (
    BROKER,
    BROKER_DEFAULTS,
    CONTROLLER,
    DescribedNode,
    FileFacts,
    is_number,
    raise_problems,
    value_problems,
)
from ebbtide.snapshot.setting_names import meant_setting, misspelled_keys, zookeeper_notes
from ebbtide.untrusted.yaml_files import YamlValue, read_documents

_OWN_DEFAULTS = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
"""What the server.properties of Kafka's distribution sets, which some images start from."""
_VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?::?-([^}]*)|[^}]*)\}|(\w+))|\{\{[^}]*\}\}")
"""A variable, or a template of Docker Swarm such as `{{.Task.Slot}}`."""
_OF_A_NODE = ("PROCESS_ROLES", "NODE_ID", "BROKER_ID", "ZOOKEEPER_CONNECT", "CONTROLLER_QUORUM_VOTERS")
_OF_SWARM = frozenset({"placement", "mode", "endpoint_mode", "update_config", "rollback_config"})
"""What only Docker Swarm obeys under `deploy`."""
_ON_A_HOST = re.compile(r"\s*node\.(?:hostname|id)\s*==\s*(\S+)")
_CP_OF_KAFKA_3 = 7
_CP_LIKE_KAFKA = 4


class _Image(NamedTuple):
    """A family of images: how it names properties, where logs are by default, and what it sets by itself."""

    repository: re.Pattern[str]
    prefix: str
    log_dir: str
    own: Mapping[str, str] = {}
    own_beside_others: bool = False


_IMAGES = (
    _Image(re.compile(r"bitnami\w*/kafka$"), "KAFKA_CFG_", "/bitnami/kafka/data", _OWN_DEFAULTS, True),
    _Image(re.compile(r"confluentinc/(?:cp-kafka|cp-server|confluent-local)$"), "KAFKA_", "/var/lib/kafka/data"),
    _Image(re.compile(r"apache/kafka(?:-native)?$"), "KAFKA_", "/tmp/kafka-logs", _OWN_DEFAULTS),
)
_UNKNOWN = _Image(re.compile(""), "KAFKA_", "/tmp/kafka-logs")


class _Service(NamedTuple):
    name: str
    values: YamlValue
    image: _Image
    tag: str
    environment: dict[str, YamlValue]
    mounted: DescribedNode | None


def read_compose(path: Path, content: bytes, given: Mapping[Path, DescribedNode]) -> tuple[FileFacts, set[Path]]:
    """Return the nodes of a compose file, and which of the `given` server.properties its services mount.

    Raises one `UsageError` with all that is wrong in it.
    """
    used: set[Path] = set()
    problems: list[EbbtideError] = []
    nodes: list[DescribedNode] = []
    by_id: dict[int | None, dict[str, _Service]] = {}
    misspelled: list[tuple[str, str]] = []
    in_containers: dict[str, str] = {}
    hosts: set[str | None] = set()
    notes: list[str] = []
    releases: list[str] = []
    sharing: dict[str, list[str]] = {}
    for document in read_documents(path, content):
        volumes = document.at("volumes").table
        in_memory = {one for one in volumes if volumes[one].at("driver_opts", "type").text == "tmpfs"}
        if document.at("include").content is not None:
            notes.append(f"the files that {path.name} includes were not read: their services are not known")
        for name, values in document.at("services").table.items():
            files = {one for source in _mounts(values) for one in _places(path.parent, source) if one in given}
            used |= files
            service = _service(name, values, next((given[one] for one in sorted(files)), None))
            if service is None:
                continue
            node, wrong = _node(service)
            problems += wrong
            names = [name, *(f"{name} {number}" for number in range(2, _replicas(service) + 1))][: _replicas(service)]
            disks = {role: _disks_of(service, node, role, in_memory) for role in node.roles}
            lost = {role: [one for one, source in disks[role].items() if source is None] for role in disks}
            emptied = frozenset(role for role in lost if lost[role])
            nodes += [DescribedNode(name=one, properties=node.properties, emptied=emptied) for one in names]
            host = _host(service, document)
            hosts |= {host} if BROKER in node.roles else set()
            for source in {one for of_role in disks.values() for one in of_role.values() if one and host == ""}:
                sharing.setdefault(source, []).extend(names)
            by_id.setdefault(node.id, {}).update(dict.fromkeys(names, service))
            in_containers |= dict.fromkeys(names if emptied else (), ",".join(dict.fromkeys(chain(*lost.values()))))
            notes += zookeeper_notes(node.properties, name)
            misspelled += _misspelled(service)
            notes += _notes_of(service)
            releases += _release_of(service)
    if not nodes:
        allowed = "a service with KAFKA_PROCESS_ROLES, or of apache/kafka, bitnami/kafka or confluentinc/cp-kafka"
        problems.append(
            UsageError("no service of this compose file is a Kafka node", where="services", allowed=allowed)
        )
    problems += _same_ids(by_id)
    raise_problems(path, problems)
    notes += _disks(nodes, in_containers, hosts)
    notes += [
        f"{some_of(names, 3)} have one log directory, {source}: only the first of them that locks it starts"
        for source, names in sharing.items()
        if len(set(names)) > 1
    ]
    is_whole = _has_all_voters(nodes)
    return FileFacts(
        nodes=tuple(nodes),
        is_whole=is_whole,
        on_one_host=is_whole and len(hosts - {None}) == len(hosts) == 1,
        releases=tuple(releases),
        notes=tuple(notes),
        misspelled=tuple(misspelled),
    ), used


def _mounts(values: YamlValue) -> Iterator[str]:
    """Yield what a service mounts in the place of a server.properties, or of the folder that has it."""
    yield from (source for source, to in _volumes(values) if re.search(r"server\.properties|/mnt/shared/config", to))


def _volumes(values: YamlValue) -> Iterator[tuple[str, str]]:
    """Yield what a service mounts, and where; a new container has nothing again of what has no source."""
    tmpfs = values.at("tmpfs")
    yield from (("", (one.text or "").partition(":")[0]) for one in tmpfs.items or [tmpfs])
    for one in values.at("volumes").items:
        text = _filled(one.text or "")
        at = text.rfind(":/")  # what is before may be C:/kafka, and what is behind the target an option
        source, target = (text[:at], text[at + 1 :].partition(":")[0]) if at >= 0 else ("", text)
        if one.table:
            source, target = (_filled(one.at(key).text or "") for key in ("source", "target"))
        yield "" if one.at("type").text == "tmpfs" else source, target


def _places(folder: Path, source: str) -> list[Path]:
    return [] if "\0" in source else [(folder / source).resolve(), (folder / source / "server.properties").resolve()]


def _has_all_voters(nodes: list[DescribedNode]) -> bool:
    """Whether each controller that a node names is in the file; else the file is one host's part of a cluster."""
    ids = {str(one.id) for one in nodes}
    voters = _named(nodes, "controller.quorum.voters")
    servers = _named(nodes, "controller.quorum.bootstrap.servers")
    return {one.partition("@")[0] for one in voters} <= ids and len(servers) <= sum(
        CONTROLLER in one.roles for one in nodes
    )


def _named(nodes: list[DescribedNode], setting: str) -> set[str]:
    return {one.strip() for node in nodes for one in node.properties.get(setting, "").split(",") if one.strip()}


def _service(name: str, values: YamlValue, mounted: DescribedNode | None) -> _Service | None:
    """Return a service that is a Kafka node; None for any other."""
    named = _filled(values.at("image").text or "")
    repository, _, tag = named.partition("@")[0].rpartition(":") if ":" in named.rpartition("/")[2] else (named, "", "")
    environment = _environment(values.at("environment"))
    image = next((one for one in _IMAGES if one.repository.search(repository)), _UNKNOWN)
    if image is _UNKNOWN and any(key.startswith("KAFKA_CFG_") for key in environment):
        image = _IMAGES[0]
    says_so = any(f"{image.prefix}{one}" in environment for one in _OF_A_NODE)
    runs_image = image is not _UNKNOWN and values.at("command").content is values.at("entrypoint").content is None
    is_node = says_so or runs_image or mounted is not None
    return _Service(name, values, image, tag, environment, mounted) if is_node else None


def _environment(values: YamlValue) -> dict[str, YamlValue]:
    """Return the environment of a service, written as a table or as a list."""
    found = dict(values.table)
    for one in values.items:
        key, equals, value = (one.text or "").partition("=")
        found[key] = YamlValue(content=value if equals else None, line=one.line)
    return found


def _filled(text: str) -> str:
    """Return the text with the defaults of its variables; one without a default is left as it is."""
    return _VARIABLE.sub(lambda found: "$" if found[0] == "$$" else found[0] if found[2] is None else found[2], text)


def _value_in(text: str) -> str:
    """Return a filled value; a variable whose default is empty is left as it is, because the file does not say it."""
    return _filled(text).strip() or text.strip()


def _property(key: str, prefix: str) -> str:
    name = key.removeprefix(prefix).lower().replace("_", ".")
    return name.replace("...", "-").replace("..", "_")


def _node(service: _Service) -> tuple[DescribedNode, list[UsageError]]:
    """Return the service's node and what is wrong with its values."""
    prefix = service.image.prefix
    said = {
        _property(key, prefix): (_value_in(value.text), value.line)
        for key, value in service.environment.items()
        if key.startswith(prefix) and value.text is not None
    }
    values = {name: value for name, (value, _) in said.items() if not _VARIABLE.search(value)}
    own = service.image.own if service.image.own_beside_others or not values else {}
    properties = {**(own if service.mounted is None else service.mounted.properties), **values}
    lines = {name: line for name, (_, line) in said.items()}
    wrong = list(value_problems(properties, f"services.{service.name}: ", lines))
    return DescribedNode(name=service.name, properties=properties), wrong


def _same_ids(by_id: Mapping[int | None, Mapping[str, _Service]]) -> Iterator[UsageError]:
    """Yield an error for each node that has another one's id; it names the variable that says it."""
    known = {id_: list(of_id.items()) for id_, of_id in by_id.items() if id_ is not None}
    for id_, of_id in known.items():
        for name, service in of_id[1:]:
            keys = [f"{service.image.prefix}{one}" for one in ("NODE_ID", "BROKER_ID")]
            key = next((one for one in keys if one in service.environment), keys[0])
            yield UsageError(
                "two nodes of this compose file have one id",
                where=f"services.{service.name}: {key}",
                got=f"{id_} for {of_id[0][0]} and for {name}",
                allowed=f"an id that no other node has, such as {max(known) + 1}",
            ).at_line(service.environment.get(key, service.values).line)


def _disks_of(service: _Service, node: DescribedNode, role: str, in_memory: Collection[str]) -> dict[str, str | None]:
    """Return the directories of a role, each with its place on a volume with a name, or in a folder of the host.

    None: a new container has it empty.
    """
    log_dirs = node.properties.get("log.dirs") or node.properties.get("log.dir") or service.image.log_dir
    directories = [one.strip() for one in log_dirs.split(",")]
    if role == CONTROLLER:
        directories = [node.properties.get("metadata.log.dir") or directories[0]]
    volumes = sorted(((target.rstrip("/"), source) for source, target in _volumes(service.values)), reverse=True)
    found: dict[str, str | None] = {}
    for directory in directories:
        over = ((to, source) for to, source in volumes if f"{directory}/".startswith(f"{to}/"))
        to, source = next(over, ("", ""))
        is_kept = source and source not in in_memory
        found[directory] = f"{source}{directory.removeprefix(to)}" if is_kept else None
    return found


def _replicas(service: _Service) -> int:
    text = service.values.at("deploy", "replicas").text or service.values.at("scale").text or "1"
    return min(int(text), 100) if is_number(text) else 1


def _release_of(service: _Service) -> Iterator[str]:
    """Yield the release that the tag says; Confluent Platform 7.6 has Kafka 3.6, and 8.0 has 4.0."""
    numbers = re.match(r"v?([0-9]+)\.([0-9]+)(?:\.([0-9]+))?(?![0-9.])", service.tag)
    if numbers is None or service.image is _UNKNOWN:
        return
    major, minor, patch = numbers.groups()
    if "confluent" in service.image.repository.pattern:
        if int(major) >= _CP_OF_KAFKA_3:
            yield f"{int(major) - _CP_LIKE_KAFKA}.{minor}"
    else:
        yield ".".join(one for one in (major, minor, patch) if one is not None)


def _misspelled(service: _Service) -> Iterator[tuple[str, str]]:
    """Yield sentences on what neither compose nor the image reads, although it was probably meant."""
    yield from misspelled_keys(service.values.table, ("image", "environment", "volumes", "deploy"), service.name)
    if service.values.at("profiles").content is not None:
        yield "the key profiles was not read: the service counts as one that runs", service.name
    for key in service.environment:
        bare = _property(key, "KAFKA_").removeprefix("cfg.")
        meant = bare if bare in BROKER_DEFAULTS else meant_setting(bare, "node")
        right = f"{service.image.prefix}{(meant or '').upper().replace('.', '_')}"
        if meant is not None and key.startswith("KAFKA_") and key.upper() != right:
            yield f"{key} sets nothing that Kafka reads, did you mean {right}?", service.name


def _notes_of(service: _Service) -> Iterator[str]:
    """Yield what of a service is elsewhere, so that the file does not say it."""
    if service.values.at("env_file").content is not None:
        yield f"the env_file of {service.name} was not read: settings there are not known"
    if service.values.at("extends").content is not None:
        yield f"what {service.name} extends was not read: settings there are not known"
    if service.mounted is None and any(True for _ in _mounts(service.values)):
        yield f"{service.name} mounts a server.properties, which was not read: give it beside this file"
    for key, value in service.environment.items():
        if key.startswith(service.image.prefix) and (found := _VARIABLE.search(_value_in(value.text or ""))):
            name = _property(key, service.image.prefix)
            if name in _OWN_DEFAULTS or name.endswith(("replication.factor", "replicas", "election.enable")):
                yield f"{name} of {service.name} is {found[0]}, which the file does not say: taken as not set"


def _host(service: _Service, document: YamlValue) -> str | None:
    """Return the host of a service: that of the file, or where Docker Swarm must place it; None if that is open."""
    deploy = service.values.at("deploy")
    overlay = any(one.at("driver").text == "overlay" for one in document.at("networks").table.values())
    has_template = any("{{." in (one.text or "") for one in service.environment.values())
    if not (overlay or has_template or _OF_SWARM & deploy.table.keys()):
        return ""
    wanted = (_ON_A_HOST.match(one.text or "") for one in deploy.at("placement", "constraints").items)
    return next((one[1] for one in wanted if one is not None), None)


def _disks(nodes: list[DescribedNode], in_containers: Mapping[str, str], hosts: set[str | None]) -> Iterator[str]:
    brokers, controllers = ([one for one in nodes if role in one.roles] for role in (BROKER, CONTROLLER))
    emptied = sum(CONTROLLER in one.emptied for one in controllers)
    if 2 * emptied > len(controllers):
        yield f"new containers empty {emptied} of {plural(len(controllers), 'controller')}: then all topics are gone"
    if in_containers:
        keep, each = ("keeps its", "") if len(in_containers) == 1 else ("keep their", " of its own for each")
        yield (
            f"{some_of(list(in_containers), 3)} {keep} log in the container: a new one, as after `docker compose "
            f"down`, has an empty disk. Mount a volume{each} at "
            f"{some_of(list(dict.fromkeys(in_containers.values())), 2)}"
        )
    if None in hosts or ("" in hosts and len(hosts) > 1):  # Swarm also places services that do not mention it
        yield (
            "Docker Swarm places the brokers of this file, on hosts that it does not say: if one host has all of them, "
            "they lose power together. A broker that it moves has an empty disk on the other host"
        )
    elif len(brokers) > len(hosts):
        yield f"{len(brokers)} brokers are on {plural(len(hosts), 'host')}: those on one host lose power together"
