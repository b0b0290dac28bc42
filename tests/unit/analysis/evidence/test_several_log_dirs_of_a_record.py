"""A record of brokers with several log directories: the tables have the replicas of all of them."""

from __future__ import annotations

from pathlib import Path

import evidence_builders as build
import pyarrow.parquet as pq
import pytest

from analysis.evidence.collect import write_checkpoints, write_replicas
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import Manifest, Topology, write_manifest


@pytest.fixture
def record(tmp_path: Path) -> Path:
    nodes = Topology(controllers=(100,), brokers=(1,))
    write_manifest(RecordFolder(tmp_path), Manifest(run_id="r", topology=nodes, log_dirs=3))
    return tmp_path


def number(value: bytes | None) -> int | None:
    return int(value) if value is not None and value.isdigit() else None


def _replica(record: Path, name: str, *batches: bytes) -> None:
    build.write_log(record / "raw" / "broker-1" / name, *batches)


def _rows(record: Path) -> list[dict[str, object]]:
    return [row for path in RecordFolder(record).files("watermarks") for row in pq.read_table(path).to_pylist()]


def test_each_log_directory_has_a_checkpoint_of_its_own(record: Path) -> None:
    _replica(record, "t-0", build.plain_batch(0, b"1"))
    _replica(record, "dirs/2/t-1", build.plain_batch(0, b"1", b"2"))
    raw = record / "raw" / "broker-1"
    (raw / "replication-offset-checkpoint").write_text("0\n2\nt 0 1\nt 1 1\n")
    (raw / "dirs/2/replication-offset-checkpoint").write_text("0\n1\nt 1 2\n")
    (raw / "dirs/3").mkdir()
    (raw / "dirs/3/replication-offset-checkpoint").write_text("")
    report = write_checkpoints(RecordFolder(record))
    keys = ("partition", "high_watermark", "log_end_offset")
    assert [tuple(row[key] for key in keys) for row in _rows(record)] == [(0, 1, 1), (1, 2, 2)]
    assert (report.missing, report.problems) == ((), ())


def test_the_replicas_of_every_log_directory_become_rows(record: Path) -> None:
    _replica(record, "t-0", build.plain_batch(0, b"1"))
    _replica(record, "dirs/2/t-1", build.plain_batch(0, b"1", b"2"))
    report = write_replicas(RecordFolder(record), number)
    assert [(log.partition, log.records) for log in report.logs] == [(0, 1), (1, 2)]
    assert report.missing == ()
