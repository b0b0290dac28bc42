"""The file of a snapshot: written by `--save`, and read from anybody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ebbtide.errors import UsageError
from ebbtide.named_files import write_named_file
from ebbtide.scenario.foreign_files import SNAPSHOT, foreign_file_error
from ebbtide.snapshot.model import BROKER_NAMES, MIN_ISR, SNAPSHOT_VERSION, ClusterSnapshot, SnapshotTopic
from ebbtide.untrusted.files import UnreadableFile, read_file
from ebbtide.untrusted.values import decode_json

BYTES_MAX = 256 << 20
REPLICAS_MAX = 100
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_NEXT = "ebbtide advise --bootstrap broker1.example:9092 --save cluster.json    (makes one)"


def write_snapshot(path: Path, snapshot: ClusterSnapshot) -> None:
    """Write the snapshot as JSON. Raises `UsageError` where the file cannot be written."""
    write_named_file(path, msgspec.json.format(msgspec.json.encode(snapshot), indent=1) + b"\n", "snapshot")


def read_snapshot(path: Path) -> ClusterSnapshot:
    """Read a snapshot that somebody else may have written. Raises `UsageError`."""
    try:
        content = read_file(path, what="the snapshot", bytes_max=BYTES_MAX)
    except UnreadableFile as error:
        error.add_next(_NEXT)
        raise
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
        not_one = UsageError(
            f"not {SNAPSHOT}", where=str(path), got=str(error)[:300], allowed="a file of --save", next=_NEXT
        )
        raise foreign_file_error(str(path), content, SNAPSHOT) or not_one from None
    for problem in _problems(snapshot):
        raise UsageError("the snapshot is not of a real cluster", where=str(path), got=problem, next=_NEXT)
    return snapshot


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
    if not topic.partitions:
        yield f"topic {topic.name} has no partition"
    yield from _config_problems(topic.configs, f"topic {topic.name}")
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
