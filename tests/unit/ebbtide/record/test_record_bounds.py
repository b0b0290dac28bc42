"""Some bytes of a record can stand for gigabytes of work: every count in it has a bound."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from checkout import DATA

from analysis.judge.history.log_lines import lines_of
from ebbtide.errors import UsageError
from ebbtide.logs.batches import HEADER_SIZE, MAGIC
from ebbtide.logs.scan import Damage, scan_file
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.untrusted.parquet import read_rows

RECORD = DATA / "runs" / "last-replica-standing-3.9.1"
TOPIC = {"partitions": 1000, "replication_factor": 3, "min_isr": 2}
OFFSETS = {"log_start": 0, "high_watermark": 1}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("topics", {"t": {**TOPIC, "partitions": 10**12}}),
        ("topics", {"t": {**TOPIC, "replication_factor": 10**9}}),
        ("topics", {f"t{at}": TOPIC for at in range(101)}),
        ("topology", {"brokers": list(range(1_001))}),
        ("topology", {"controllers": list(range(1_001))}),
        ("final_offsets", {f"t-{at}": OFFSETS for at in range(100_001)}),
        ("producers", {str(at): {"acks": 1} for at in range(1_001)}),
        ("releases", {"1": [{"kafka": "4.3.1", "started_ns": at} for at in range(1_001)]}),
    ],
)
def test_a_manifest_with_more_than_a_run_can_have_is_one_clear_error(tmp_path: Path, key: str, value: Any) -> None:
    record = Path(shutil.copytree(RECORD, tmp_path / "run"))
    manifest = json.loads((record / "manifest.json").read_text())
    (record / "manifest.json").write_text(json.dumps({**manifest, key: value}))
    with pytest.raises(UsageError) as refused:
        read_manifest(RecordFolder(record))
    assert "manifest.json" in refused.value.what


def test_lists_of_more_brokers_than_a_partition_can_have_are_refused_by_the_footer(tmp_path: Path) -> None:
    lists = pa.array([list(range(20_000))] * 21, pa.list_(pa.int32()))
    pq.write_table(pa.table({"isr": lists}), tmp_path / "partitions.parquet")
    with pytest.raises(UsageError, match="more elements than a partition can have replicas"):
        read_rows([tmp_path / "partitions.parquet"], "partitions")
    real = pa.array([list(range(40))] * 30_000, pa.list_(pa.int32()))
    pq.write_table(pa.table({"isr": real}), tmp_path / "real.parquet")
    assert read_rows([tmp_path / "real.parquet"], "partitions").num_rows == 30_000


def test_a_log_of_empty_lines_ends_as_a_log_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.judge.history.log_lines._LOG_BYTES_MAX", 64_000)
    with gzip.open(tmp_path / "broker-1.log.gz", "wb") as log:
        log.write(b"\n" * 1_001)
    with pytest.raises(EOFError):
        list(lines_of(tmp_path / "broker-1.log.gz"))
    with gzip.open(tmp_path / "broker-2.log.gz", "wb") as log:
        log.write((b"x" * 63 + b"\n") * 1_000)
    assert len(list(lines_of(tmp_path / "broker-2.log.gz"))) == 1_000


def _segment(path: Path, write: Callable[[int], object]) -> Path:
    opened = os.open(path, os.O_CREAT | os.O_RDWR)
    write(opened)
    os.close(opened)
    return path


def test_a_hole_of_gigabytes_in_a_segment_costs_nothing(tmp_path: Path) -> None:
    segment = _segment(tmp_path / "0.log", lambda opened: os.truncate(opened, 1 << 40))
    before_s = time.process_time()
    (damage,) = scan_file(segment)
    assert time.process_time() - before_s < 1
    assert isinstance(damage, Damage)
    assert (damage.kind, damage.size) == ("zeros", 1 << 40)


def test_a_batch_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    head = bytearray(HEADER_SIZE)
    head[8:12] = (2**31 - 1).to_bytes(4, "big")
    head[16] = MAGIC

    def write(opened: int) -> None:
        os.write(opened, head)
        os.truncate(opened, 1 << 40)

    (damage,) = scan_file(_segment(tmp_path / "0.log", write))
    assert isinstance(damage, Damage)
    assert damage.kind == "header"
