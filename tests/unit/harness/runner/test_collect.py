"""What is copied off the volumes of a broker with several log directories."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import evidence_builders as build
import pyarrow.parquet as pq
import pytest

from analysis.evidence.collect import write_checkpoints
from ebbtide.logs.checkpoint_file import HIGH_WATERMARKS
from ebbtide.record.folder import RecordFolder
from harness.runner.collect import collect_raw, write_answered_high_watermarks


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    """A broker with t-0 in directory 1, and t-1 and a future replica of t-0 in directory 2."""
    dirs = (tmp_path / "one", tmp_path / "two")
    build.write_log(dirs[0] / "t-0", build.plain_batch(0, b"1"))
    build.write_log(dirs[1] / "t-1", build.plain_batch(0, b"1"))
    build.write_log(dirs[1] / "t-0.0123456789abcdef-future", build.plain_batch(0, b"1"))
    for data in dirs:
        (data / HIGH_WATERMARKS).write_text("0\n0\n")
    node = SimpleNamespace(id=1, role="broker", name="broker-1")
    return SimpleNamespace(nodes={1: node}, dirs=dirs, data_dirs=lambda _: dirs)


def copied(record: Path) -> set[str]:
    raw = record / "raw" / "broker-1"
    return {str(path.relative_to(raw)) for path in raw.rglob("*") if path.is_file()}


def test_each_directory_is_copied_to_its_place_without_future_replicas(broker: Any, tmp_path: Path) -> None:
    segment = f"{0:020}.log"
    assert collect_raw(broker, ["t"], RecordFolder(tmp_path / "record")) == ()
    assert copied(tmp_path / "record") == {
        HIGH_WATERMARKS,
        f"t-0/{segment}",
        f"dirs/2/{HIGH_WATERMARKS}",
        f"dirs/2/t-1/{segment}",
    }


def test_a_replica_in_two_directories_is_left_out_and_said(broker: Any, tmp_path: Path) -> None:
    build.write_log(broker.dirs[1] / "t-0", build.plain_batch(0, b"other"))
    assert collect_raw(broker, ["t"], RecordFolder(tmp_path / "record")) == ("broker-1/t-0",)
    assert not any("t-0" in name for name in copied(tmp_path / "record"))


def test_what_brokers_answered_becomes_the_hws_of_their_replicas(broker: Any, tmp_path: Path) -> None:
    record = tmp_path / "record"
    collect_raw(broker, ["t"], RecordFolder(record))
    write_answered_high_watermarks(RecordFolder(record), {1: {"t-0": 1, "t-1": 1}})
    report = write_checkpoints(RecordFolder(record))
    assert (report.rows, report.missing, report.problems) == (2, (), ())
    (path,) = RecordFolder(record).files("watermarks")
    assert [row["high_watermark"] for row in pq.read_table(path).to_pylist()] == [1, 1]
