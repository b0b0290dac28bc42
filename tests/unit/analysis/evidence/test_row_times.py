"""The tables of the metadata log have times of the run, whatever the controllers' clocks said."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from real_records import unpack_record

from analysis.evidence.remaking import TIMELINE
from analysis.evidence.report import TimelineReport, report_of
from analysis.evidence.timeline import write_timeline
from ebbtide.record.clock import ClockReading
from ebbtide.record.files import CLOCK_FILE
from ebbtide.record.folder import RecordFolder

S = 10**9


def _times(record: Path) -> list[tuple[int, int]]:
    """Return the offset and the time of each row of the metadata log's tables, in their order."""
    tables = [pq.read_table(record / f"{name}.parquet") for name in TIMELINE]
    columns = [(table["metadata_offset"].to_pylist(), table["at_ns"].to_pylist()) for table in tables]
    return sorted({row for offsets, times in columns for row in zip(offsets, times, strict=True)})


def _write_looks(record: Path, rows: list[tuple[int, int]], from_offset: int, lead_ns: int) -> None:
    """Write what the recorder sees if the wall clock is `lead_ns` ahead from a record of the metadata log on."""
    readings = []
    for offset, wall_ns in rows:
        lead = lead_ns if offset >= from_offset else 0
        before, after = wall_ns - lead - S // 50, wall_ns - lead + S // 50
        readings.append(ClockReading(at_ns=before, wall_ns=before + lead, metadata_end=offset))
        readings.append(ClockReading(at_ns=after, wall_ns=after + lead, metadata_end=offset + 1))
    (record / CLOCK_FILE).write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in readings))


@pytest.mark.parametrize("lead_s", [-3600, -3, -1, 1, 3, 3600])
def test_a_step_of_the_clock_is_undone_when_the_tables_are_made(tmp_path: Path, lead_s: int) -> None:
    record = unpack_record("unclean-election-4.4.0", tmp_path)
    written = _times(record)
    from_offset = written[len(written) // 2][0]
    _write_looks(record, written, from_offset, lead_s * S)
    write_timeline(RecordFolder(record))
    undone = [(offset, at - lead_s * S * (offset >= from_offset)) for offset, at in written]
    assert _times(record) == undone
    report = report_of(RecordFolder(record), "timeline", TimelineReport)
    assert report is not None
    assert report.unsure_ns == ()


def test_times_that_fit_both_sides_of_a_step_are_named(tmp_path: Path) -> None:
    record = unpack_record("unclean-election-4.4.0", tmp_path)
    rows = _times(record)
    begun, ended = rows[0][1] - S, rows[-1][1] + 9 * S
    lines = [
        ClockReading(at_ns=begun, wall_ns=begun, metadata_end=0),
        ClockReading(at_ns=ended, wall_ns=ended - 3 * S, metadata_end=10**6),
    ]
    (record / CLOCK_FILE).write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in lines))
    write_timeline(RecordFolder(record))
    report = report_of(RecordFolder(record), "timeline", TimelineReport)
    assert report is not None
    assert report.unsure_ns != ()
    assert {until - since for since, until in report.unsure_ns} == {3 * S}
