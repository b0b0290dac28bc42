"""The snapshot of a cluster: all that was read of it, in one frozen struct.

Another file is refused: the error says where it breaks its own format, or what it is.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from ebbtide.errors import UsageError
from ebbtide.named_files import write_named_file
from ebbtide.properties_file import properties_in
from ebbtide.releases.known_releases import METADATA_VERSION
from ebbtide.scenario.foreign_files import CLUSTER_FILES, NEXT_ADVISE, SNAPSHOT, foreign_file_error
from ebbtide.untrusted.files import UnreadableFile, read_file
from ebbtide.untrusted.values import CORRECT_IT, decode_json
from ebbtide.untrusted.yaml_files import read_documents

SNAPSHOT_VERSION = 1
OF_FILES = "the time of the files"
"""`taken_at` of a cluster that nobody asked."""

MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"
FLUSH_MESSAGES = "flush.messages"
FLUSH_MS = "flush.ms"
CLEANUP = "cleanup.policy"

BROKER_NAMES: dict[str, str] = {
    MIN_ISR: MIN_ISR,
    UNCLEAN: UNCLEAN,
    FLUSH_MESSAGES: "log.flush.interval.messages",
    FLUSH_MS: "log.flush.interval.ms",
    CLEANUP: "log.cleanup.policy",
}
"""Each topic config that is read, and its name at the broker and default level."""

KAFKA_DEFAULTS: dict[str, str] = {
    MIN_ISR: "1",
    UNCLEAN: "false",
    FLUSH_MESSAGES: str(2**63 - 1),
    FLUSH_MS: str(2**63 - 1),
    CLEANUP: "delete",
}


def weakest(name: str, values: Collection[str]) -> str:
    """Return the value of a config, by its name at any level, with which most can be lost."""
    if name == UNCLEAN:
        return "true" if any(one.lower() == "true" for one in values) else "false"
    if name in (CLEANUP, BROKER_NAMES[CLEANUP]):
        return ",".join(sorted({part.strip() for one in values for part in one.split(",")}))
    return (max if "flush" in name else min)(values, key=int)


class SnapshotBroker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One live broker.

    `configs` are its effective values under the topic configs' names. `metadata_versions` are the
    lowest and highest metadata.version that it supports. `problem` says why the broker could not be asked.
    Not `keeps_disk`: files say that a new container of it has an empty disk.
    """

    id: int
    address: str
    rack: str | None = None
    configs: dict[str, str] = {}
    metadata_versions: tuple[int, int] | None = None
    problem: str | None = None
    keeps_disk: bool = True


class SnapshotPartition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One partition; leader -1: none. An ELR of None: the brokers do not say.

    `adding` and `removing` are those of a reassignment under way.
    """

    index: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class SnapshotTopic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One topic; `configs` are those that the topic itself sets.

    `is_planned`: nobody saw its partitions. It has none here if it exists, and nobody knows how many replicas it has.
    """

    name: str
    partitions: tuple[SnapshotPartition, ...]
    configs: dict[str, str] = {}
    is_planned: bool = False


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cluster at one moment; `taken_at` is UTC in ISO 8601.

    `features` are finalised levels. `controllers` are the voters' ids, none if no broker is one, None if nobody said.
    `metadata_versions` are the lowest and highest of the broker that answered first. `notes` say what was not read.

    Of files: `kafka` is the release by its three numbers, if they say it, and `assumed` is what they do not say, in
    words. `unsaid` names the release and the feature levels that no file says. `is_planned`: nobody saw a partition;
    the topics are those that the files ask for, and that Kafka would make. `on_one_host`: all brokers are, so that they
    lose power together. `rolls`: new containers come one after the other. `knows_controllers`: the files have the
    settings of each controller.
    """

    snapshot_version: int
    taken_at: str
    cluster_id: str
    brokers: tuple[SnapshotBroker, ...]
    features: dict[str, int]
    controllers: tuple[int, ...] | None = None
    metadata_versions: tuple[int, int] | None = None
    topics: tuple[SnapshotTopic, ...]
    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    kafka: str | None = None
    unsaid: tuple[str, ...] = ()
    is_planned: bool = False
    on_one_host: bool = False
    rolls: bool = False
    knows_controllers: bool = False

    @property
    def is_of_files(self) -> bool:
        """Whether files describe it, and nobody asked it."""
        return self.taken_at == OF_FILES

    @property
    def origin(self) -> str:
        """Where it is from, in words."""
        return "from files" if self.is_of_files else f"read {self.taken_at}"

    @property
    def metadata_version(self) -> int | None:
        """The finalised metadata.version, None where no broker named it."""
        return self.features.get(METADATA_VERSION)


BYTES_MAX = 256 << 20
REPLICAS_MAX = 100
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_UNREAL = "the snapshot is not of a real cluster"


def write_snapshot(path: Path, snapshot: ClusterSnapshot) -> None:
    """Write the snapshot as JSON. Raises `UsageError` where the file cannot be written."""
    write_named_file(path, msgspec.json.format(msgspec.json.encode(snapshot), indent=1) + b"\n", "snapshot")


def read_snapshot(path: Path) -> ClusterSnapshot:
    """Read a snapshot that somebody else may have written. Raises `UsageError`."""
    try:
        content = read_file(path, bytes_max=BYTES_MAX)
    except UnreadableFile as error:
        allowed = error.allowed or CLUSTER_FILES
        raise UsageError(error.what, where=error.where, got=error.got, allowed=allowed, next=NEXT_ADVISE) from None
    try:
        version = decode_json(content, _Versioned).snapshot_version
        if version > SNAPSHOT_VERSION:
            raise UsageError(
                "the snapshot is from a newer Ebbtide",
                where=str(path),
                got=f"snapshot_version {version}",
                allowed=f"up to {SNAPSHOT_VERSION}",
            )
        snapshot = decode_json(content, ClusterSnapshot)
    except msgspec.DecodeError as error:
        got = None if path.suffix in (".yaml", ".yml") or not content.lstrip().startswith(b"{") else str(error)[:300]
        raise foreign_file_error(str(path), content, SNAPSHOT) or unknown_file_error(path, content, got) from None
    check_snapshot(snapshot, str(path))
    return snapshot


def unknown_file_error(path: Path, content: bytes, got: str | None) -> UsageError:
    """Return the error for a file that describes no cluster: where it is broken, else which files do."""
    return broken_file_error(path, content) or UsageError(
        "this file does not describe a cluster",
        where=str(path),
        got=got or "no file that Ebbtide knows",
        allowed=CLUSTER_FILES,
        next=NEXT_ADVISE,
    )


def check_snapshot(snapshot: ClusterSnapshot, where: str) -> None:
    """Raise `UsageError` for what no real cluster is."""
    for problem in _problems(snapshot):
        what = "the files do not describe a real cluster" if snapshot.is_of_files else _UNREAL
        raise UsageError(what, where=where, got=problem, next=NEXT_ADVISE)


class _Versioned(msgspec.Struct, frozen=True):
    snapshot_version: int


def _problems(snapshot: ClusterSnapshot) -> Iterator[str]:
    ids = [broker.id for broker in snapshot.brokers]
    if len(set(ids)) != len(ids):
        yield "two brokers with one id"
    names = [topic.name for topic in snapshot.topics]
    if len(set(names)) != len(names):
        yield "two topics with one name"
    for topic in snapshot.topics:
        yield from _topic_problems(topic)
    for broker in snapshot.brokers:
        yield from _config_problems(broker.configs, f"broker {broker.id}")


def _topic_problems(topic: SnapshotTopic) -> Iterator[str]:
    if not _NAME.fullmatch(topic.name):
        yield f"a topic named {topic.name[:60]!r}"
    if not topic.partitions and not topic.is_planned:
        yield f"topic {topic.name} has no partition"
    yield from _config_problems(topic.configs, f"topic {topic.name}")
    if len({one.index for one in topic.partitions}) < len(topic.partitions):
        yield f"topic {topic.name} has a partition twice"
    for partition in topic.partitions:
        at = f"{topic.name}-{partition.index}"
        if not 0 < len(set(partition.replicas)) == len(partition.replicas) <= REPLICAS_MAX:
            yield f"{at} has the replicas {list(partition.replicas[:10])}"
        if len(set(partition.isr)) != len(partition.isr) or not set(partition.isr) <= set(partition.replicas):
            yield f"{at} has an ISR of {list(partition.isr[:10])} and the replicas {list(partition.replicas[:10])}"


def _config_problems(configs: dict[str, str], where: str) -> Iterator[str]:
    for name in (MIN_ISR, "flush.messages", "flush.ms"):
        value = configs.get(name)
        if value is not None and not re.fullmatch(r"[0-9]{1,19}", value):
            yield f"{where}: {name}={value[:60]!r}"
    unknown = next((name for name in configs if name not in BROKER_NAMES), None)
    if unknown is not None:
        yield f"{where}: {unknown[:60]!r}, which a snapshot does not have"


def broken_file_error(path: Path, content: bytes) -> UsageError | None:
    """Return what is wrong with a broken YAML, JSON or properties file, with its line; None for any other file."""
    error: UsageError | None = None
    try:
        if path.suffix in (".yaml", ".yml"):
            deque(read_documents(path, content), maxlen=0)
        elif path.suffix == ".properties":
            deque(properties_in(content.decode("latin-1")), maxlen=0)
        elif content.lstrip().startswith(b"{"):
            msgspec.json.decode(content)
    except UsageError as broken:
        error = broken
    except msgspec.DecodeError as broken:
        what, _, byte = str(broken).partition(" (byte ")
        before = content[: int(byte.rstrip(")") or len(content))]
        place = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        error = UsageError("broken JSON", got=what).at_line(*place)
    except (ValueError, RecursionError):
        pass
    if error is not None:
        error.add_where(str(path))
        error.add_next(CORRECT_IT)
    return error
