"""Reads from raw/ in which log directory each replica is, and which one the metadata log names.

No table has either: directories are ids, which a broker writes into its `meta.properties`.
"""

from __future__ import annotations

from collections.abc import Mapping

from analysis.record.record import Record
from ebbtide.kraft.follower import MetadataFollower, SnapshotStarted
from ebbtide.kraft.messages import PartitionChangeRecord, PartitionRecord
from ebbtide.kraft.records import MetadataRecord
from ebbtide.logs.checkpoint_file import directory_id_in
from ebbtide.logs.segments import METADATA_FOLDER, TopicPartition
from ebbtide.record.files import RAW_DIR, raw_log_dirs

Directories = Mapping[int, str]
"""The id of the log directory of each replica, by broker id."""
_KINDS: Mapping[str, type[PartitionRecord | PartitionChangeRecord]] = {
    "PartitionRecord": PartitionRecord,
    "PartitionChangeRecord": PartitionChangeRecord,
}


def directories_named(record: Record) -> Mapping[TopicPartition, Directories]:
    """Return which directories the metadata log names in the end; empty if it is not in raw/, or names none."""
    report = record.reports.timeline
    if report is None or report.controller is None:
        return {}
    found: dict[TopicPartition, dict[int, str]] = {}
    log = MetadataFollower(record.folder / RAW_DIR / f"controller-{report.controller}" / METADATA_FOLDER)
    for item in log.poll():
        if isinstance(item, SnapshotStarted):
            found = {}
        if not isinstance(item, MetadataRecord) or item.name not in _KINDS or item.offset >= report.end_offset:
            continue
        change = item.as_type(_KINDS[item.name])
        if (topic := record.manifest.topic_ids.get(change.topic_id)) is not None:
            at = TopicPartition(topic, change.partition_id)
            before = found.get(at, {})
            replicas = before if change.replicas is None else change.replicas
            # A record that names no directories changes none.
            named = zip(replicas, change.directories, strict=False) if change.directories else before.items()
            found[at] = {replica: directory for replica, directory in named if replica in replicas}
    return found


def directory_of(record: Record, broker: int, at: TopicPartition) -> str | None:
    """Return the id of the only directory of a broker that has a replica in raw/; None: not known."""
    folders = raw_log_dirs(record.folder / RAW_DIR / f"broker-{broker}")
    having = [folder for folder in folders if (folder / str(at)).is_dir()]
    return directory_id_in(having[0]) if len(having) == 1 else None
