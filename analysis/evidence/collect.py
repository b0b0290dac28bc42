"""Turns the raw/ folder of a run record into its tables. Each part decodes what is there and reports what is missing.

Here are the watermarks: what brokers said of their replicas' HWs in their checkpoint files, and in answers.

A broker's `replication-offset-checkpoint` holds the HW of every replica as the broker last wrote it: every five seconds
and at a clean shutdown, so it may lag. What the broker answered at the end of the run counts instead.
"""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

from analysis.evidence.replicas import is_of_run, write_replicas
from analysis.evidence.report import CheckpointsReport, manifest_or_none, node_folders, save
from analysis.evidence.table_file import new_table_part
from analysis.evidence.timeline import write_timeline
from ebbtide.logs.checkpoint_file import ANSWERED_HIGH_WATERMARKS, HIGH_WATERMARKS, read_checkpoint
from ebbtide.logs.segments import TopicPartition, leo_of, partition_folders, replica_folder
from ebbtide.record.files import RAW_DIR, RecordFolder, raw_log_dirs
from ebbtide.record.manifest import Manifest
from ebbtide.record.topic_lives import TopicLives, topic_id_in

__all__ = ["write_checkpoints", "write_replicas", "write_timeline"]


def write_checkpoints(record: RecordFolder) -> CheckpointsReport:
    """Write `watermarks/checkpoint.parquet`: one row a replica of each broker in raw/.

    `log_end_offset` is null where the replica's segments are not in raw/. `at_ns` is when the file
    was written, as far as its time is within the run, else the run's end; answers are written after
    it. Each log directory of a broker has a file of its own.
    """
    manifest, lives = manifest_or_none(record), TopicLives.of_record(record)
    folders = node_folders(record, "broker")
    expected = set(manifest.topology.brokers) if manifest is not None else set()
    missing = [f"{RAW_DIR}/broker-{node}/{HIGH_WATERMARKS}" for node in sorted(expected - folders.keys())]
    problems: list[str] = []
    with new_table_part(record, "watermarks", "checkpoint") as table:
        for broker, folder in folders.items():
            log_dirs = raw_log_dirs(folder)
            seen: set[TopicPartition] = set()
            answered = [one for one in (folder / ANSWERED_HIGH_WATERMARKS,) if one.is_file()]
            for path in (*answered, *(log_dir / HIGH_WATERMARKS for log_dir in log_dirs)):
                name = record.name_of(path)
                if _need_not_be_written(path, seen):
                    continue
                if not path.is_file():
                    missing.append(name)
                    continue
                try:
                    marks = read_checkpoint(path)
                except ValueError as error:
                    problems.append(f"{name}: {error}")
                    continue
                at_ns = _written_ns(path, manifest)
                for partition, high_watermark in marks.items():
                    replica = replica_folder(log_dirs, partition)
                    # The checkpoint of a directory may name a replica that has left it since.
                    elsewhere = path.name == HIGH_WATERMARKS and replica.is_dir() and replica.parent != path.parent
                    if elsewhere or partition in seen or not is_of_run(partition, manifest):
                        continue
                    seen.add(partition)
                    end = leo_of(replica) if replica.is_dir() else None
                    topic = lives.of_id(partition.topic, topic_id_in(replica))
                    row = (topic, partition.partition, broker, None, high_watermark, end, "checkpoint", None, at_ns)
                    table.add(row)
        report = CheckpointsReport(rows=table.rows, missing=tuple(missing), problems=tuple(problems))
    save(record, "checkpoints", report)
    return report


def _need_not_be_written(path: Path, answered: Set[TopicPartition]) -> bool:
    """Whether a broker had no need yet to write this file: it answered for every replica in the folder.

    A broker makes an empty file as it starts, also where it has no replica.
    """
    if path.is_file() and path.stat().st_size > 0:
        return False
    replicas = partition_folders(path.parent).keys()
    return replicas <= answered and (path.is_file() or bool(replicas))


def _written_ns(path: Path, manifest: Manifest | None) -> int:
    written = path.stat().st_mtime_ns
    if manifest is None or manifest.end_ns is None:
        return written
    return written if (manifest.start_ns or 0) <= written <= manifest.end_ns else manifest.end_ns
