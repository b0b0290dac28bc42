"""KIP-858: a replica that moves to another log directory of its broker goes on there once the controller has it there.

The copy in the new directory takes the replica's place only after the controller has accepted the assignment. So in the
end the metadata log names the directory in which `raw/` has a replica that moved. It counts from 3.9 on, if nothing
touched the broker's disks or the partition's replicas after the move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis.judge.history.log_lines import line_times
from analysis.judge.rules.clause import Cases, Clause, Finding, Judged, unknown_finding
from analysis.judge.rules.duties.duty import lasting_partitions
from analysis.record.record import Record
from analysis.record.whole import is_raw_whole
from ebbtide.kraft.follower import MetadataFollower, SnapshotStarted
from ebbtide.kraft.messages import PartitionChangeRecord, PartitionRecord
from ebbtide.kraft.records import MetadataRecord
from ebbtide.logs.checkpoint_file import directory_id_in
from ebbtide.logs.segments import METADATA_FOLDER, TopicPartition
from ebbtide.record.files import RAW_DIR, raw_log_dirs
from ebbtide.releases.known_releases import version_of
from ebbtide.scenario.steps.table import DISK_TROUBLES, LOSES_RECORDS

_MOVED = "The current replica is successfully replaced with the future replica for {}\n"
"""`LogManager` (1.1 to 4.4)."""
_WAITS_SINCE = version_of("3.9.0")
"""`ReplicaAlterLogDirsThread` waits for the controller; read there and in 4.0, not in 3.7 and 3.8."""
_Directories = Mapping[int, str]
"""The id of the log directory of each replica, by broker id."""
_KINDS: Mapping[str, type[PartitionRecord | PartitionChangeRecord]] = {
    "PartitionRecord": PartitionRecord,
    "PartitionChangeRecord": PartitionChangeRecord,
}


def _check(judged: Judged) -> Finding:
    record = judged.record
    moved = [*_moved(record)]
    if not moved:
        return Finding(status="not-exercised")
    if not is_raw_whole(record):
        return unknown_finding(f"{RAW_DIR}/ is not as the run left it")
    named = _directories_named(record)
    cases = Cases()
    for broker, at, moved_ns in moved:
        here, said = _directory_of(record, broker, at), named.get(at, {}).get(broker)
        if here is not None and said is not None:
            row = {"topic": at.topic, "partition": at.partition, "broker": broker, "moved_ns": moved_ns}
            cases.add(None if here == said else {**row, "directory": here, "metadata_log_names": said})
    return cases.finding(_doubt(record))


def _doubt(record: Record) -> str | None:
    """Return why the metadata log may be older than the replicas' folders; None: it is not."""
    if record.ends_early:
        return "the run ended early: the metadata log may end before the move"
    return record.why_metadata_may_be_undone


def _moved(record: Record) -> Iterator[tuple[int, TopicPartition, int]]:
    """Yield each replica that a broker moved, with the time of the last move, and that stayed there since."""
    steps, software = record.proven_steps, record.protocol.software
    if steps is None or (record.manifest.log_dirs or 1) < 2:
        return
    for broker in record.manifest.topology.brokers:
        touched = [
            one.fired_ns or 0 for one in steps if one.step in LOSES_RECORDS | DISK_TROUBLES and broker in one.nodes
        ]
        for place, states in lasting_partitions(record).items():
            at = TopicPartition(*place)
            moves = line_times(record, broker, _MOVED.format(at).encode())
            if not moves or version_of(software.release_of(broker, moves[-1])) < _WAITS_SINCE:
                continue
            since = [one for one in states if one.at_ns > moves[-1]]
            stays = all(broker in one.replicas for one in (states[-1], *since))
            is_reused = at.topic in record.timeline.reused_names
            if stays and not is_reused and max(touched, default=0) < moves[-1]:
                yield broker, at, moves[-1]


def _directories_named(record: Record) -> Mapping[TopicPartition, _Directories]:
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


def _directory_of(record: Record, broker: int, at: TopicPartition) -> str | None:
    """Return the id of the only directory of a broker that has a replica in raw/; None: not known."""
    folders = raw_log_dirs(record.folder / RAW_DIR / f"broker-{broker}")
    having = [folder for folder in folders if (folder / str(at)).is_dir()]
    return directory_id_in(having[0]) if len(having) == 1 else None


RULE = Clause(
    kip="KIP-858",
    check=_check,
    applies=lambda judged: (judged.record.manifest.log_dirs or 1) > 1,
    needed="never",
    compares_times=True,
    unknown_when="`raw/` is not as the run left it, the run ended early, or a controller lost its log",
    example="""
        Broker 2 moved its replica from directory A to directory B. The metadata log names A in the end.
        partitions: leader=1
        setting: directory=A,B
        logs: node=broker-2 at=30 says=The_current_replica_is_successfully_replaced_with_the_future_replica_for_t-0
        gives: broker=2
    """,
)
