"""Copies of run records as a wall clock that steps would have left them.

`shift_all` makes the record of a harness that did not watch its clock: every time after a moment is shifted. A harness
that watches it writes its own times by a clock that does not step, so `shift_watched` shifts only Kafka's times, and
adds the readings of both clocks.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analysis.evidence.remaking import TIMELINE
from analysis.evidence.report import TimelineReport, report_of, save
from analysis.evidence.timeline import in_run_time
from ebbtide.record.clock import ClockReading, kafka_clocks, read_clock
from ebbtide.record.files import CLOCK_FILE, RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.rows import ConfigChange, Row
from ebbtide.record.steps import read_steps

SECOND_NS = 1_000_000_000
BY_S = (-3600, -3, -1, 1, 3, 3600)
_NS_PER_MS = 1_000_000
_DERIVED = ("SHA256SUMS", "verdict.json", "report.html", "anomalies")
_AFTER_STEP_NS = SECOND_NS // 20
_LOOK_NS = 50_000_000
_TIMES = frozenset({"at", "ns"})
"""Keys of steps.jsonl, wire.jsonl and clients/ that are times, and do not end in `_ns`."""


def moments(record: Path) -> Iterator[tuple[str, int]]:
    """Yield the middle of the run and a moment after each step, with their names."""
    manifest = read_manifest(RecordFolder(record))
    assert manifest.start_ns is not None
    yield "middle", (manifest.start_ns + (manifest.end_ns or manifest.start_ns)) // 2
    for step in read_steps(RecordFolder(record)) or ():
        if step.fired_ns is not None:
            yield f"step{step.index}", step.fired_ns + _AFTER_STEP_NS


def copy_of(record: Path, to: Path) -> Path:
    """Copy a record without what judging wrote and without its checksums."""
    shutil.copytree(record, to, ignore=shutil.ignore_patterns(*_DERIVED))
    return to


def shift_all(record: Path, after_ns: int, by_ns: int) -> None:
    """Shift every time of the record after a moment."""
    for path in record.rglob("*.parquet"):
        _shift_table(path, after_ns, by_ns)
    for path in [*record.rglob("*.jsonl"), record / "manifest.json"]:
        lines = path.read_bytes().splitlines() if path.suffix == ".jsonl" else [path.read_bytes()]
        shifted = [_shifted(msgspec.json.decode(line), after_ns, by_ns) for line in lines if line.strip()]
        path.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in shifted))


def shift_watched(record: Path, after_ns: int, by_ns: int) -> None:
    """Shift what Kafka's clocks said after a moment, and add what the recorder saw of it.

    Then the times of the metadata log are corrected as they are when a run's tables are made.
    """
    tables = {name: pq.read_table(path) for name in TIMELINE for path in RecordFolder(record).files(name)}
    seen = sorted((at, end + 1) for one in tables.values() for at, end in _columns(one, "at_ns", "metadata_offset"))
    manifest = read_manifest(RecordFolder(record))
    assert manifest.start_ns is not None
    end_ns = max([manifest.end_ns or 0, *(at for at, _ in seen)])
    readings = list(_looks(seen, manifest.start_ns, end_ns + _LOOK_NS, after_ns, by_ns))
    (record / CLOCK_FILE).write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in readings))
    clocks = kafka_clocks(read_clock(RecordFolder(record)), None)
    unsure: set[tuple[int, int]] = set()
    for name, table in tables.items():
        rows: list[Row] = [
            ConfigChange(metadata_offset=offset, at_ns=at + by_ns * (at > after_ns), resource="", name="")
            for at, offset in _columns(table, "at_ns", "metadata_offset")
        ]
        corrected, spans = in_run_time(rows, clocks)
        unsure.update(spans)
        place = table.schema.get_field_index("at_ns")
        times = pa.array([row.at_ns for row in corrected], table.schema.field(place).type)
        pq.write_table(table.set_column(place, table.schema.field(place), times), record / f"{name}.parquet")
    report = report_of(RecordFolder(record), "timeline", TimelineReport)
    if report is not None:
        save(RecordFolder(record), "timeline", msgspec.structs.replace(report, unsure_ns=tuple(sorted(unsure))))


def _looks(
    seen: Sequence[tuple[int, int]], from_ns: int, until_ns: int, after_ns: int, by_ns: int
) -> Iterator[ClockReading]:
    """Yield what each look of a recorder at both clocks and at the metadata log would have read."""
    at, end = 0, 0
    for now in range(from_ns, until_ns, _LOOK_NS):
        while at < len(seen) and seen[at][0] <= now:
            end = max(end, seen[at][1])
            at += 1
        yield ClockReading(at_ns=now, wall_ns=now + by_ns * (now > after_ns), metadata_end=end)


def _columns(table: pa.Table, *names: str) -> Iterator[tuple[int, ...]]:
    return zip(*(table.column(name).to_pylist() for name in names), strict=True)


def _shift_table(path: Path, after_ns: int, by_ns: int) -> None:
    table = pq.read_table(path)
    for at, field in enumerate(table.schema):
        unit = 1 if field.name.endswith("_ns") else _NS_PER_MS if field.name == "timestamp_ms" else 0
        if unit:
            column = table.column(at)
            later = pc.greater(column, pa.scalar(after_ns // unit, column.type))
            moved = pc.add(column, pa.scalar(by_ns // unit, column.type))
            table = table.set_column(at, field, pc.if_else(later, moved, column))
    pq.write_table(table, path)


def _shifted(value: Any, after_ns: int, by_ns: int) -> Any:
    if isinstance(value, list):
        return [_shifted(one, after_ns, by_ns) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: one + by_ns if _is_time(key, one) and one > after_ns else _shifted(one, after_ns, by_ns)
        for key, one in value.items()
    }


def _is_time(key: str, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and (key.endswith("_ns") or key in _TIMES)
