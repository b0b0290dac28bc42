"""The tables of the metadata log have times of the run, whatever the controllers' clocks said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import evidence_builders as build
import msgspec
import pyarrow.parquet as pq
import pytest
from real_records import unpack_record

from analysis.evidence.collect import write_checkpoints
from analysis.evidence.remaking import TIMELINE
from analysis.evidence.report import TimelineReport, report_of
from analysis.evidence.timeline import write_timeline
from ebbtide.record.clock import ClockReading
from ebbtide.record.files import CLOCK_FILE, RecordFolder
from ebbtide.record.manifest import Manifest, Topology, write_manifest

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


# What a broker answered for its replicas at the end of a run counts instead of its checkpoint.


def _manifest(record: Path) -> None:
    nodes = Topology(controllers=(100,), brokers=(1,))
    write_manifest(RecordFolder(record), Manifest(run_id="r", topology=nodes, start_ns=1, end_ns=1_000))


def _rows(record: Path) -> list[dict[str, object]]:
    return [row for path in RecordFolder(record).files("watermarks") for row in pq.read_table(path).to_pylist()]


def test_what_a_broker_answered_at_the_end_counts_instead_of_its_older_checkpoint(tmp_path: Path) -> None:
    _manifest(tmp_path)
    build.write_log(tmp_path / "raw/broker-1/t-0", build.plain_batch(0, b"1", b"2", b"3"))
    raw = tmp_path / "raw" / "broker-1"
    (raw / "replication-offset-checkpoint").write_text("0\n2\nt 0 2\nt 1 7\n")
    (raw / "answered-high-watermarks").write_text("0\n1\nt 0 3\n")
    report = write_checkpoints(RecordFolder(tmp_path))
    keys = ("partition", "high_watermark", "log_end_offset")
    assert [tuple(row[key] for key in keys) for row in _rows(tmp_path)] == [(0, 3, 3), (1, 7, None)]
    assert report.missing == ()


@pytest.mark.parametrize(("answers", "missing"), [("0\n1\nt 0 3\n", ()), ("0\n0\n", ("t-0",)), ("x", ("t-0",))])
def test_a_missing_checkpoint_is_no_gap_only_if_the_broker_answered_for_every_replica(
    tmp_path: Path, answers: str, missing: Sequence[str]
) -> None:
    _manifest(tmp_path)
    build.write_log(tmp_path / "raw/broker-1/t-0", build.plain_batch(0, b"1", b"2", b"3"))
    (tmp_path / "raw" / "broker-1" / "answered-high-watermarks").write_text(answers)
    report = write_checkpoints(RecordFolder(tmp_path))
    assert report.missing == ("raw/broker-1/replication-offset-checkpoint",) * len(missing)
    assert len(_rows(tmp_path)) == 1 - len(missing)


@pytest.mark.parametrize("partition", [0, 1])
def test_an_empty_checkpoint_is_one_that_the_broker_has_not_written_yet(tmp_path: Path, partition: int) -> None:
    _manifest(tmp_path)
    raw = tmp_path / "raw/broker-1"
    build.write_log(raw / "t-0", build.plain_batch(0, b"1", b"2", b"3"))
    (raw / "answered-high-watermarks").write_text(f"0\n1\nt {partition} 3\n")
    (raw / "replication-offset-checkpoint").touch()
    report = write_checkpoints(RecordFolder(tmp_path))
    answered_all = partition == 0
    assert bool(report.problems) is not answered_all


def test_an_empty_checkpoint_of_a_broker_without_a_replica_of_the_run_says_nothing(tmp_path: Path) -> None:
    _manifest(tmp_path)
    raw = tmp_path / "raw/broker-1"
    raw.mkdir(parents=True)
    (raw / "replication-offset-checkpoint").touch()
    report = write_checkpoints(RecordFolder(tmp_path))
    assert (report.rows, report.missing, report.problems) == (0, (), ())
