"""Writes partitions, brokers and configs from the controllers' metadata logs.

Which log is used: a batch counts as agreed when a majority of the controllers holds it (same
offset, epoch and checksum), and everything before it with it, by Raft's log matching. In a dynamic
quorum it is a majority of the voters that rule over the batch (`ebbtide.kraft.commits`). The log that
is agreed on furthest is used. Among several, it is the log that starts earliest, then the one with
the newest epoch, then the longest. Where every controller's log is there and whole, what is behind
the agreed part was never committed and is left out. Where a log is missing, nothing says what was
committed, and the whole log is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from analysis.evidence.report import ControllerLog, TimelineReport, manifest_or_none, node_folders, save
from analysis.evidence.table_file import new_table
from ebbtide.kraft.commits import VoterSet, ruling_set, voter_sets_in
from ebbtide.kraft.follower import BatchId, FollowedItem, LogGap, MetadataFollower
from ebbtide.kraft.image import MetadataImage
from ebbtide.kraft.records import MetadataRecord
from ebbtide.logs.checkpoint_file import directory_id_in
from ebbtide.logs.segments import METADATA_FOLDER
from ebbtide.record.clock import KafkaClocks, kafka_clocks, read_clock
from ebbtide.record.files import RAW_DIR, RecordFolder
from ebbtide.record.rows import BrokerEvent, ConfigChange, PartitionState, Row
from ebbtide.record.steps import read_steps
from ebbtide.record.topic_lives import TopicLives

_TABLES: dict[str, type[Row]] = {"partitions": PartitionState, "brokers": BrokerEvent, "configs": ConfigChange}
_TOPIC = "topic:"


class _Log(msgspec.Struct, frozen=True):
    report: ControllerLog
    items: list[FollowedItem]


def write_timeline(record: RecordFolder) -> TimelineReport:
    """Write partitions.parquet, brokers.parquet and configs.parquet of `record`.

    The report says from which log. Without any readable log nothing is written, and what depends on
    the tables is unknown.
    """
    folders = node_folders(record, "controller")
    manifest = manifest_or_none(record)
    expected = set(manifest.topology.controllers) if manifest is not None else set()
    quorum = max(len(expected | set(folders)), 1)
    logs = _read_logs(folders, majority=quorum // 2 + 1)
    readable = [log for log in logs if log.report.problem is None]
    found = {log.report.controller for log in readable}
    missing = tuple(f"{RAW_DIR}/controller-{node}/{METADATA_FOLDER}" for node in sorted(expected - found))
    reports = tuple(log.report for log in logs)
    if not readable:
        nothing = "no metadata log could be read"
        report = TimelineReport(controller=None, how=nothing, end_offset=0, logs=reports, missing=missing)
    else:
        chosen = max(readable, key=_rank)
        intact = len(readable) == quorum and all(log.report.damage is None for log in readable)
        end = chosen.report.agreed_end_offset if intact else chosen.report.end_offset
        image = MetadataImage()
        clocks = kafka_clocks(read_clock(record), read_steps(record))
        rows, unsure_ns = in_run_time(image.apply(_items_before(chosen.items, end)), clocks)
        report = TimelineReport(
            controller=chosen.report.controller,
            how=_how_chosen(chosen.report, reports, quorum, intact),
            end_offset=end,
            logs=reports,
            missing=missing,
            skipped=dict(image.skipped),
            rows=_write(record, rows, TopicLives.of_record(record)),
            unsure_ns=unsure_ns,
        )
    save(record, "timeline", report)
    return report


def _read_logs(folders: Mapping[int, Path], majority: int) -> list[_Log]:
    read = {}
    for node, folder in folders.items():
        follower = MetadataFollower(folder / METADATA_FOLDER)
        read[node] = (follower, follower.poll())
    held = {node: {batch.identity for batch in follower.batches} for node, (follower, _) in read.items()}
    starts = {node: follower.batches[0].base_offset for node, (follower, _) in read.items() if follower.batches}
    directories = {node: directory_id_in(folder) for node, folder in folders.items()}

    def is_agreed(batch: BatchId, sets: Sequence[VoterSet]) -> bool:
        holders = {
            other: directories[other]
            for other in starts
            if batch.identity in held[other] or batch.base_offset < starts[other]
        }
        voters = ruling_set(sets, batch.next_offset)
        return len(holders) >= majority if voters is None else voters.majority_of(holders) is not None

    logs = []
    for node, (follower, items) in read.items():
        sets = voter_sets_in(items)
        # Not the first that is not agreed on: a disk that voted on an old batch may have been replaced since.
        agreed = next((batch.next_offset for batch in reversed(follower.batches) if is_agreed(batch, sets)), 0)
        report = ControllerLog(
            controller=node,
            start_offset=starts.get(node, follower.next_offset),
            end_offset=follower.next_offset,
            last_epoch=follower.batches[-1].epoch if follower.batches else -1,
            agreed_end_offset=agreed,
            damage=follower.tail,
            problem=follower.unreadable if not follower.batches else None,
        )
        logs.append(_Log(report, items))
    return logs


def _rank(log: _Log) -> tuple[int, int, int, int]:
    report = log.report
    return report.agreed_end_offset, -report.start_offset, report.last_epoch, report.end_offset


def _items_before(items: Iterable[FollowedItem], end: int) -> Iterable[FollowedItem]:
    for item in items:
        if isinstance(item, MetadataRecord) and item.offset >= end:
            return
        if isinstance(item, LogGap) and item.start >= end:
            return
        yield item


def _how_chosen(chosen: ControllerLog, logs: Sequence[ControllerLog], quorum: int, intact: bool) -> str:
    agreed, end = chosen.agreed_end_offset, chosen.end_offset
    text = f"the log of controller {chosen.controller}"
    if intact:
        text += f", which a majority of the voters holds up to offset {agreed}"
        if end > agreed:
            text += f"; offsets {agreed} to {end - 1} are on no majority and left out"
    else:
        whole = sum(log.problem is None and log.damage is None for log in logs)
        text += f" up to offset {end}; only {whole} of {quorum} logs are there and whole, {agreed} offsets are agreed"
    behind = [log for log in logs if log.problem is None and log.end_offset > log.agreed_end_offset]
    for log in behind:
        if log.controller != chosen.controller:
            text += f"; controller {log.controller} alone has offsets from {log.agreed_end_offset} on"
    return text


def _write(record: RecordFolder, rows: Sequence[Row], lives: TopicLives) -> dict[str, int]:
    if lives.reused_names:
        rows = [_with_topic(row, lives) for row in rows]
    written = {}
    for name, kind in _TABLES.items():
        with new_table(record, name) as table:
            for row in rows:
                if isinstance(row, kind):
                    table.add(msgspec.structs.astuple(row))
            written[name] = table.rows
    return written


def _with_topic(row: Row, lives: TopicLives) -> Row:
    """Return the row with the name of the topic that it is about, of several that had one name."""
    if isinstance(row, PartitionState):
        return msgspec.structs.replace(row, topic=lives.at_offset(row.topic, row.metadata_offset))
    if isinstance(row, ConfigChange) and row.resource.startswith(_TOPIC):
        topic = lives.at_offset(row.resource.removeprefix(_TOPIC), row.metadata_offset)
        return msgspec.structs.replace(row, resource=_TOPIC + topic)
    return row


def in_run_time(rows: Sequence[Row], clocks: KafkaClocks) -> tuple[list[Row], tuple[tuple[int, int], ...]]:
    """Return the rows with times of the run, and the spans in which some of these times are not sure.

    Only here: the tables have times of the run, as the clients' tables do, so nobody else needs to know that a clock
    was set. raw/ keeps what the controllers wrote.

    A controller's clock that was set back says some times twice. Where neither the readings of the clock nor those of
    the log's end tell which is meant, both times of a row end such a span.
    """
    if not clocks.was_set:
        return list(rows), ()
    found: list[Row] = []
    unsure: set[tuple[int, int]] = set()
    for row in rows:
        time = clocks.time_of(row.at_ns, metadata_offset=row.metadata_offset)
        found.append(msgspec.structs.replace(row, at_ns=time.at_ns))
        if time.or_ns is not None:
            unsure.add((min(time.at_ns, time.or_ns), max(time.at_ns, time.or_ns)))
    return found, tuple(sorted(unsure))
