"""Writes replicas/: every record of every replica's log, from segments in raw/.

Internal topics are left out: their records are Kafka's own. One that the scenario itself has is
there: its records have no value, and where its leader epochs begin says which leader lost what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from analysis.evidence.report import LogFileDamage, ReplicaLog, ReplicasReport, manifest_or_none, node_folders, save
from analysis.evidence.table_file import TableWriter, new_table_file, new_table_folder
from ebbtide.logs.batches import Batch, LogRecord
from ebbtide.logs.codecs import UndecodableError
from ebbtide.logs.scan import Damage, scan_file
from ebbtide.logs.segments import INTERNAL_PREFIX, TopicPartition, partition_folders, segment_files
from ebbtide.record.files import RAW_DIR, RecordFolder, raw_log_dirs
from ebbtide.record.manifest import Manifest
from ebbtide.record.topic_lives import TopicLives, topic_id_in

ValueOf = Callable[[bytes | None], int | None]


def write_replicas(record: RecordFolder, value_of: ValueOf) -> ReplicasReport:
    """Write `replicas/broker-N.parquet` for every broker in raw/, all of them or none.

    `value_of` reads the value from a payload; it is null for a payload of another run. Control
    records have no value either. Damaged parts of a log yield no rows. The report has each of them,
    and what is missing.
    """
    folders = node_folders(record, "broker")
    manifest, lives = manifest_or_none(record), TopicLives.of_record(record)
    logs = []
    with new_table_folder(record, "replicas") as whole:
        for broker, folder in folders.items():
            with new_table_file(whole / f"broker-{broker}.parquet", "replicas") as table:
                for partition, replica in partition_folders(*raw_log_dirs(folder)).items():
                    if is_of_run(partition, manifest):
                        named = partition._replace(topic=lives.of_id(partition.topic, topic_id_in(replica)))
                        logs.append(_write_log(record, broker, named, replica, value_of, table))
    report = ReplicasReport(logs=tuple(logs), missing=_missing_logs(manifest, folders))
    save(record, "replicas", report)
    return report


def is_of_run(partition: TopicPartition, manifest: Manifest | None) -> bool:
    """Return whether a partition is evidence: it is not Kafka's own, or the scenario has its topic."""
    own = partition.topic.startswith(INTERNAL_PREFIX)
    return not own or (manifest is not None and partition.topic in manifest.topics)


def _write_log(
    record: RecordFolder, broker: int, partition: TopicPartition, folder: Path, value_of: ValueOf, table: TableWriter
) -> ReplicaLog:
    segments = segment_files(folder)
    before = table.rows
    start = end = readable = min(segments, default=0)
    damages: list[LogFileDamage] = []
    is_cut = False
    for base, path in segments.items():
        end = end if is_cut else max(end, base)
        if base > readable and not is_cut:
            damages.append(LogFileDamage(file=record.name_of(path), damage=_hole(readable, base), from_offset=readable))
            readable = base
        for item in _records_in(path):
            if isinstance(item, Damage):
                damages.append(LogFileDamage(file=record.name_of(path), damage=item, from_offset=readable))
                is_cut = True
                continue
            batch, rows = item
            for row in rows:
                table.add(_row(broker, partition, batch, row, value_of))
            end = end if is_cut else batch.next_offset
            readable = batch.next_offset
    return ReplicaLog(
        broker=broker,
        topic=partition.topic,
        partition=partition.partition,
        bytes=sum(path.stat().st_size for path in segments.values()),
        records=table.rows - before,
        log_start_offset=start,
        log_end_offset=end,
        damages=tuple(damages),
    )


def _hole(end: int, base: int) -> Damage:
    """Return the damage that a missing segment leaves.

    Each segment but the first begins where the segment before ends. Compaction leaves the same
    hole. So it does not end the log: a broker goes on behind it.
    """
    detail = f"the segment begins at offset {base}, the segment before ends at {end}"
    return Damage(position=0, size=0, kind="hole", detail=detail, tail=False, base_offset=end)


def _records_in(path: Path) -> Iterator[Damage | tuple[Batch, list[LogRecord]]]:
    for item in scan_file(path):
        if isinstance(item, Damage):
            yield item
            continue
        try:
            yield item, list(item.records())
        except UndecodableError as error:
            yield Damage(
                position=item.position,
                size=item.size,
                kind="records",
                detail=str(error),
                tail=False,
                base_offset=item.base_offset,
            )


def _row(
    broker: int, partition: TopicPartition, batch: Batch, record: LogRecord, value_of: ValueOf
) -> tuple[object, ...]:
    return (
        broker,
        partition.topic,
        partition.partition,
        record.offset,
        batch.leader_epoch,
        None if batch.control else value_of(record.value),
        batch.producer_id,
        batch.producer_epoch,
        record.sequence,
        batch.control,
        record.timestamp_ms,
    )


def _missing_logs(manifest: Manifest | None, folders: dict[int, Path]) -> tuple[str, ...]:
    if manifest is None:
        return ("manifest.json",)
    brokers = [f"{RAW_DIR}/broker-{node}" for node in sorted(set(manifest.topology.brokers) - folders.keys())]
    return (*brokers, *(f"{RAW_DIR}/{name}" for name in manifest.raw_omitted))
