"""Writes evidence.json: what was decoded, what was damaged, and what was missing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from ebbtide.logs.scan import Damage
from ebbtide.record.files import RAW_DIR, RecordFolder, write_atomically
from ebbtide.record.manifest import Manifest, is_record, read_manifest
from ebbtide.record.sums import read_sums
from ebbtide.untrusted.files import UnreadableFile
from ebbtide.untrusted.values import decode_json

EVIDENCE = "evidence.json"

T = TypeVar("T")


class LogFileDamage(msgspec.Struct, frozen=True, kw_only=True):
    """A damage, and the file that has it, relative to the record.

    `from_offset` is the offset after the last batch that could be read before the damage. What is
    below it is whole, unless an earlier damage says otherwise. It is null in records of versions
    that did not write it.
    """

    file: str
    damage: Damage
    from_offset: int | None = None


class ControllerLog(msgspec.Struct, frozen=True, kw_only=True):
    """One controller's metadata log, offsets as [start, end).

    `agreed_end_offset` is how far a majority of controllers holds the same batches. `damage` is
    what comes behind the last readable batch; `problem` says why nothing could be read.
    """

    controller: int
    start_offset: int
    end_offset: int
    last_epoch: int
    agreed_end_offset: int
    damage: Damage | None = None
    problem: str | None = None


class TimelineReport(msgspec.Struct, frozen=True, kw_only=True):
    """How partitions, brokers and configs were made.

    `controller` null: there was no log to make them from. `how` says in a sentence which log was
    used and how disagreement was resolved. `end_offset` is the offset after the last record used.
    `skipped` counts records that were not replayed, by reason. `rows` is null where nothing was
    written. `unsure_ns` are spans in which times of rows are not sure, because a clock was set.
    """

    controller: int | None
    how: str
    end_offset: int
    logs: tuple[ControllerLog, ...]
    missing: tuple[str, ...]
    skipped: dict[str, int] = {}
    rows: dict[str, int] | None = None
    unsure_ns: tuple[tuple[int, int], ...] = ()


class ReplicaLog(msgspec.Struct, frozen=True, kw_only=True):
    """One replica's log, offsets as [start, end).

    `log_end_offset` ends before the first damage that is not a hole.
    """

    broker: int
    topic: str
    partition: int
    bytes: int
    records: int
    log_start_offset: int
    log_end_offset: int
    damages: tuple[LogFileDamage, ...] = ()


class ReplicasReport(msgspec.Struct, frozen=True, kw_only=True):
    """Every replica log that was decoded, and what is missing from raw/.

    The manifest names what must be there.
    """

    logs: tuple[ReplicaLog, ...]
    missing: tuple[str, ...]


class CheckpointsReport(msgspec.Struct, frozen=True, kw_only=True):
    """How many watermarks were taken from answers and checkpoint files.

    `problems` are files that could not be read.
    """

    rows: int
    missing: tuple[str, ...]
    problems: tuple[str, ...] = ()


Report = TimelineReport | ReplicasReport | CheckpointsReport


class EvidenceReports(msgspec.Struct, frozen=True, kw_only=True):
    """What evidence.json says of each part; None: it says nothing, or nothing that can be read."""

    timeline: TimelineReport | None = None
    replicas: ReplicasReport | None = None
    checkpoints: CheckpointsReport | None = None


def save(record: RecordFolder, part: str, report: Report) -> None:
    """Put one report into the record's evidence.json, beside those of the other parts.

    Without SHA256SUMS nothing says whether raw/ is as the run left it. So an old report that counts
    more rows than the new one stays: it shows that a part of raw/ was removed (`analysis.record.whole`).
    """
    old = report_of(record, part, type(report))
    if old is not None and read_sums(record) is None and _has_more_rows(old, report):
        return
    parts = _parts_of(record)
    parts[part] = msgspec.Raw(msgspec.json.encode(report))
    write_atomically(record / EVIDENCE, msgspec.json.format(msgspec.json.encode(parts), indent=2) + b"\n")


def _has_more_rows(old: Report, new: Report) -> bool:
    counts = _rows(new)
    return any(rows > counts.get(name, 0) for name, rows in _rows(old).items())


def _rows(report: Report) -> dict[str, int]:
    """Return how many rows were made from each log or for each table."""
    match report:
        case TimelineReport():
            return dict(report.rows or {})
        case ReplicasReport():
            return {f"{log.broker}/{log.topic}-{log.partition}": log.records for log in report.logs}
        case CheckpointsReport():
            return {"checkpoints": report.rows}


def report_of(record: RecordFolder, part: str, kind: type[T]) -> T | None:
    """Return what evidence.json says of one part; None when it says nothing.

    The parts are `timeline`, `replicas` and `checkpoints`.
    """
    return _report_in(_parts_of(record), part, kind)


def read_reports(folder: RecordFolder) -> EvidenceReports:
    """Return what evidence.json says of each part."""
    parts = _parts_of(folder)
    return EvidenceReports(
        timeline=_report_in(parts, "timeline", TimelineReport),
        replicas=_report_in(parts, "replicas", ReplicasReport),
        checkpoints=_report_in(parts, "checkpoints", CheckpointsReport),
    )


def _parts_of(folder: RecordFolder) -> dict[str, msgspec.Raw]:
    try:
        return decode_json(folder.bytes(EVIDENCE), dict[str, msgspec.Raw])
    except (UnreadableFile, msgspec.DecodeError):
        return {}


def _report_in(parts: Mapping[str, msgspec.Raw], part: str, kind: type[T]) -> T | None:
    try:
        return decode_json(bytes(parts[part]), kind)
    except (KeyError, msgspec.DecodeError):
        return None


def manifest_or_none(record: RecordFolder) -> Manifest | None:
    """Return the record's manifest; None when the run ended before it was written."""
    return read_manifest(record) if is_record(record.path) else None


def node_folders(record: RecordFolder, role: str) -> dict[int, Path]:
    """Return the folders raw/<role>-N of a record, by node id, in order."""
    raw = record / RAW_DIR
    found = {}
    for path in raw.glob(f"{role}-*") if raw.is_dir() else ():
        number = path.name.removeprefix(f"{role}-")
        if number.isdecimal() and path.is_dir():
            found[int(number)] = path
    return dict(sorted(found.items()))
