"""What a broker answered for its replicas at the end of a run counts instead of its checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import evidence_builders as build
import pyarrow.parquet as pq
import pytest

from analysis.evidence.collect import write_checkpoints
from ebbtide.record.folder import RecordFolder
from ebbtide.record.manifest import Manifest, Topology, write_manifest


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
