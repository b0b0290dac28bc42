"""A record without SHA256SUMS whose raw/ lost a part: what is made again shows it, and counts for nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from real_records import unpack_record
from records import as_record
from test_damaged_logs import facts_with

from analysis.evidence.remaking import TIMELINE
from analysis.judging.one_record import prepare_record
from ebbtide.record.files import RecordFolder
from ebbtide.record.sums import files_below, read_sums, write_sums


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """A run that no SHA256SUMS speaks of."""
    found = unpack_record("last-replica-standing-4.4.0", tmp_path)
    assert read_sums(RecordFolder(found)) is None
    return found


def parts_with_gaps(record: Path) -> set[str]:
    prepare_record(RecordFolder(record))
    return {one.part for one in as_record(record).gaps}


def test_replicas_made_again_without_a_log_that_the_run_had_are_a_gap(record: Path) -> None:
    shutil.rmtree(record / "replicas")
    shutil.rmtree(record / "raw" / "broker-3" / "t-0")
    assert parts_with_gaps(record) == {"replicas"}
    assert parts_with_gaps(record) == {"replicas"}


def test_replicas_made_again_of_an_empty_log_are_a_gap(record: Path) -> None:
    shutil.rmtree(record / "replicas")
    for log in (record / "raw" / "broker-3" / "t-0").glob("*.log"):
        log.write_bytes(b"")
    assert parts_with_gaps(record) == {"replicas"}


def test_a_timeline_made_again_of_a_metadata_log_that_was_cut_is_a_gap(record: Path) -> None:
    for table in TIMELINE:
        (record / f"{table}.parquet").unlink()
    for log in record.glob("raw/controller-*/__cluster_metadata-0/*.log"):
        log.write_bytes(log.read_bytes()[: log.stat().st_size // 3])
    assert "partitions" in parts_with_gaps(record)


def test_what_is_made_again_of_a_whole_raw_folder_is_no_gap(record: Path) -> None:
    shutil.rmtree(record / "replicas")
    for table in TIMELINE:
        (record / f"{table}.parquet").unlink()
    assert parts_with_gaps(record) == set()


@pytest.mark.parametrize(
    ("report", "key"), [("replicas", "missing"), ("checkpoints", "missing"), ("checkpoints", "problems")]
)
def test_replicas_of_which_something_was_not_read_are_not_said_to_agree(
    record: Path, report: str, key: str, tmp_path: Path
) -> None:
    assert facts_with(record).with_unread_replicas() is None
    evidence = json.loads((record / "evidence.json").read_text())
    evidence[report][key] = ["raw/broker-3/t-0"]
    (record / "evidence.json").write_text(json.dumps(evidence))
    told = facts_with(record).with_unread_replicas()
    assert told is not None
    assert "raw/broker-3/t-0" in told


def test_a_link_out_of_the_record_is_not_followed(record: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("mine")
    (record / "linked").symlink_to(elsewhere)
    write_sums(RecordFolder(record))
    sums = read_sums(RecordFolder(record))
    assert sums is not None
    assert [name for name in sums if name.startswith("linked")] == []
    assert files_below(RecordFolder(record), "linked") == ["linked"]
