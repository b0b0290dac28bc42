"""Copies the evidence from the nodes' volumes to raw/, after the nodes ended."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from analysis.evidence.collect import write_checkpoints, write_replicas, write_timeline
from analysis.evidence.table_file import new_table_part
from cluster.runtime.cluster import Runtime
from ebbtide.journal.convert import convert_journals
from ebbtide.journal.payload import value_of
from ebbtide.logs.checkpoint_file import (
    ANSWERED_HIGH_WATERMARKS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    checkpoint_text,
)
from ebbtide.logs.scan import Damage, scan_file
from ebbtide.logs.segments import INTERNAL_PREFIX, METADATA_FOLDER, TopicPartition, partition_folders, segment_files
from ebbtide.record.files import MORE_LOG_DIRS, RAW_DIR, RecordFolder, write_atomically
from ebbtide.record.tables import WIRE

RAW_LIMIT_BYTES = 512 * 1024 * 1024
"""A replica with larger segments is left out of raw/; the manifest names it."""

_METADATA_FILES = ("*.log", "*.checkpoint", LEADER_EPOCHS)
_REPLICA_FILES = ("*.log", LEADER_EPOCHS, "partition.metadata")
_BROKER_FILES = (HIGH_WATERMARKS, RECOVERY_POINTS, META_PROPERTIES)


def collect_raw(
    runtime: Runtime, topics: Iterable[str], record: RecordFolder, *, own_clients: bool = False
) -> tuple[str, ...]:
    """Copy metadata logs, replica segments and checkpoints.

    With `own_clients`, the table `wire` gets the batches of all logs, as raw/ has no log of a topic that a test made.
    Returns the `broker-N/topic-P` that it left out because they are too large, or in two log directories.
    """
    wanted = set(topics)
    omitted = []
    logs: dict[int, list[tuple[TopicPartition, Path, bool]]] = {}
    for node in runtime.nodes.values():
        target = record / RAW_DIR / node.name
        if node.role == "controller":
            # The live mirror may hold the tail of a deposed leader; the final log on disk replaces it.
            shutil.rmtree(target / METADATA_FOLDER, ignore_errors=True)
            data = runtime.data_dir(node.id)
            _copy(data / METADATA_FOLDER, target / METADATA_FOLDER, _METADATA_FILES)
            _copy(data, target, (META_PROPERTIES,))
            continue
        folders = {
            data: target if number == 1 else target / MORE_LOG_DIRS / str(number)
            for number, data in enumerate(runtime.data_dirs(node.id), 1)
        }
        for data, folder in folders.items():
            _copy(data, folder, _BROKER_FILES)
        logs[node.id] = [*_copies_in(folders)]
        for partition, log, is_alone in logs[node.id]:
            # Two copies: the broker does not start with both, and nothing says which one is the replica.
            if partition.topic in wanted and (not is_alone or _size_of(log) > RAW_LIMIT_BYTES):
                omitted.append(f"{node.name}/{log.name}")
            elif partition.topic in wanted:
                _copy(log, folders[log.parent] / log.name, _REPLICA_FILES)
    if own_clients:
        with new_table_part(record, "wire", "replicas") as table:
            for row in _batches_of_brokers(logs):
                table.add(row)
    return tuple(dict.fromkeys(omitted))


def _copies_in(data_dirs: Collection[Path]) -> Iterator[tuple[TopicPartition, Path, bool]]:
    """Yield the logs of a broker's directories, each with whether it is the partition's only one there."""
    found = [copy for data in data_dirs for copy in partition_folders(data).items()]
    counts = Counter(partition for partition, _ in found)
    yield from ((partition, log, counts[partition] == 1) for partition, log in found)


def _batches_of_brokers(logs: Mapping[int, Iterable[tuple[TopicPartition, Path, bool]]]) -> Iterator[list[object]]:
    """Yield a row of the table `wire` for each batch of a replica, and for each log, of each broker."""
    for broker, copies in logs.items():
        for partition, log, is_alone in copies:
            if is_alone and not partition.topic.startswith(INTERNAL_PREFIX):
                place = {"broker": broker, "topic": partition.topic, "partition": partition.partition}
                for batch in _batches_of(log):
                    yield [(batch | place).get(name) for name in WIRE.names]


def _batches_of(log: Path) -> list[dict[str, object]]:
    """Return a row for each batch of a log, by its head, and one for the log; none if it is damaged."""
    segments = segment_files(log)
    start = end = min(segments, default=0)
    rows: list[dict[str, object]] = []
    for one in (one for path in segments.values() for one in scan_file(path, verify=False)):
        if isinstance(one, Damage):
            return []
        ends = {"offset": one.base_offset, "last_offset": one.last_offset}
        rows.append({"kind": "replica", **ends, "leader_epoch": one.leader_epoch})
        end = one.next_offset
    return [*rows, {"kind": "replica-log", "offset": start, "last_offset": max(end, *segments, start)}]


def write_answered_high_watermarks(record: RecordFolder, reached: Mapping[int, Mapping[str, int]]) -> None:
    """Write the HWs that each broker answered for its replicas to its raw/, as `{broker: {"topic-partition": HW}}`."""
    for broker, answers in reached.items():
        found = {TopicPartition.parse(name): high_watermark for name, high_watermark in answers.items()}
        path = record / RAW_DIR / f"broker-{broker}" / ANSWERED_HIGH_WATERMARKS
        write_atomically(path, checkpoint_text(found).encode())


def _size_of(log: Path) -> int:
    return sum(segment.stat().st_size for segment in log.glob("*.log"))


def _copy(source: Path, target: Path, patterns: tuple[str, ...]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for pattern in patterns:
        for file in source.glob(pattern):
            shutil.copy2(file, target / file.name)


def write_tables(record: RecordFolder, run_id: str) -> int:
    """Make the record's tables from journals and raw evidence.

    Returns how many bytes of torn journal ends it left out.
    """
    torn_bytes = convert_journals(record)
    write_timeline(record)
    write_replicas(record, value_of(run_id))
    write_checkpoints(record)
    return torn_bytes
