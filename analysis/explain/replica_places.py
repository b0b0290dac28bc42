"""Finds where a record stands in the replicas' logs after the run."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from analysis.causes.evidence import ReadRows
from analysis.explain.subject import Subject
from analysis.explain.table_rows import TableRow, find_rows
from analysis.record.record import Record
from ebbtide.journal.payload import value_in_words
from ebbtide.logs.scan import Damage, scan_file
from ebbtide.logs.segments import TopicPartition, replica_folder, segment_files
from ebbtide.record.files import RAW_DIR, raw_log_dirs


class ReplicaPlace(msgspec.Struct, frozen=True, kw_only=True):
    """What one replica's log holds of the record; `has_it` None: not known.

    `place` is its row of replicas/; `segment` is the file of raw/ and the position of its batch
    there.
    """

    broker: int
    has_it: bool | None
    text: str
    place: str
    segment: str | None = None


def replica_places(
    record: Record, subject: Subject, brokers: list[int], logs: Mapping[int, ReadRows], omitted: Collection[str] = ()
) -> list[ReplicaPlace]:
    """Return one entry for each broker of the partition's replica set, in order.

    `logs`: the rows of replicas/ of each broker that has any. `omitted` are the replicas (`broker-N/topic-P`) whose
    logs are not in the record.
    """
    files = dict.fromkeys(logs, "replicas/")
    # Empty logs have files that are alike, of which `files` of the folder names one.
    names = {broker: f"replicas/broker-{broker}.parquet" for broker in brokers}
    files |= {broker: name for broker, name in names.items() if record.folder.has(name)}
    files = {broker: file for broker, file in files.items() if f"broker-{broker}/{subject.at}" not in omitted}
    copies: dict[int, list[TableRow]] = {}
    others: dict[int, TableRow] = {}
    at = subject.at
    for row in find_rows(record, "replicas", value=subject.value):
        copies.setdefault(row.values["broker"], []).append(row)
    if subject.offset is not None:
        for row in find_rows(record, "replicas", topic=at.topic, partition=at.partition, offset=subject.offset):
            others.setdefault(row.values["broker"], row)
    return [
        _place_on(
            record, subject, broker, files.get(broker), copies.get(broker, []), others.get(broker), logs.get(broker)
        )
        for broker in brokers
    ]


def _place_on(
    record: Record,
    subject: Subject,
    broker: int,
    file: str | None,
    copies: list[TableRow],
    other: TableRow | None,
    log: ReadRows | None,
) -> ReplicaPlace:
    if copies:
        copy, *more = copies
        offset, epoch = copy.values["offset"], copy.values["leader_epoch"]
        again = "".join(f" and again at {one.values['offset']:,}" for one in more)
        return ReplicaPlace(
            broker=broker,
            has_it=True,
            text=f"has it at offset {offset:,}{again}, written under leader epoch {epoch}",
            place=copy.place,
            segment=segment_place(record, broker, str(subject.at), offset),
        )
    if file is None:
        text = "not known: this broker's log is not in the run's record"
        return ReplicaPlace(broker=broker, has_it=None, text=text, place=f"no row of replicas/ with broker {broker}")
    if other is not None:
        value, epoch = other.values["value"], other.values["leader_epoch"]
        what = "a record of no producer of this run" if value is None else f"another record, {value_in_words(value)}"
        text = f"does not have it: at offset {subject.offset:,} is {what}, of leader epoch {epoch}"
        return ReplicaPlace(broker=broker, has_it=False, text=text, place=other.place)
    ends = "is empty" if log is None else f"ends at offset {int(log.offset.max()) + 1:,}"
    text = f"does not have it: its log {ends}"
    return ReplicaPlace(broker=broker, has_it=False, text=text, place=file)


def segment_place(record: Record, broker: int, partition: str, offset: int) -> str | None:
    """Return the segment file in raw/ and the position of the batch that has the offset.

    None: raw/ does not have it, for instance because the log was too large to be kept.
    """
    folders = raw_log_dirs(record.folder / RAW_DIR / f"broker-{broker}")
    folder = replica_folder(folders, TopicPartition.parse(partition))
    below = [path for base, path in segment_files(folder).items() if base <= offset]
    for item in scan_file(below[-1]) if below else ():
        if not isinstance(item, Damage) and item.base_offset <= offset <= item.last_offset:
            return f"{record.folder.name_of(below[-1])}, byte {item.position:,}"
    return None
