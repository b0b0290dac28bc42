"""Coverage facts of deleted records: how many were deleted, and how many came back."""

from __future__ import annotations

from pathlib import Path

import pytest
from records import as_record

from analysis.judge.coverage.deletion_facts import count_expired_records, deletion_facts
from ebbtide.record.folder import RecordFolder
from ebbtide.record.manifest import FinalOffsets, Manifest, write_manifest
from ebbtide.record.steps import StepEntry

DELETED, CAME_BACK = "deleted-records", "deleted-records-that-came-back"


def deletion(old: int, new: int) -> StepEntry:
    move = {"old": old, "new": new, "leader_epoch": 0, "asked_ns": 1, "answered_ns": 2}
    return StepEntry(index=0, step="delete-records", parameters={"partition": "t-0"}, proof={"log_start": move})


def facts_of(record: Path, *steps: StepEntry, log_start: int | None = 0, hw: int = 1000) -> dict[str, int]:
    ends = {} if log_start is None else {"t-0": FinalOffsets(log_start=log_start, high_watermark=hw)}
    write_manifest(RecordFolder(record), Manifest(run_id="r", final_offsets=ends))
    return dict(deletion_facts(as_record(record), list(steps)))


@pytest.mark.parametrize(("log_start", "came_back"), [(500, 0), (700, 0), (100, 400), (0, 500)])
def test_offsets_below_the_deleted_log_start_that_the_final_log_has_came_back(
    tmp_path: Path, log_start: int, came_back: int
) -> None:
    facts = facts_of(tmp_path, deletion(0, 200), deletion(200, 500), log_start=log_start)
    assert facts == {DELETED: 500, CAME_BACK: came_back}


@pytest.mark.parametrize(("hw", "came_back"), [(300, 200), (100, 0)])
def test_deleted_offsets_above_the_final_hw_did_not_come_back(tmp_path: Path, hw: int, came_back: int) -> None:
    assert facts_of(tmp_path, deletion(0, 500), log_start=100, hw=hw) == {DELETED: 500, CAME_BACK: came_back}


def test_without_a_final_read_of_the_partition_nobody_knows_what_came_back(tmp_path: Path) -> None:
    assert facts_of(tmp_path, deletion(0, 500), log_start=None) == {DELETED: 500}


def test_the_log_of_a_topic_made_anew_brings_no_deleted_record_back(tmp_path: Path) -> None:
    topic = StepEntry(index=1, step="delete-topic", parameters={"topic": "t"}, effect_ns=3)
    assert facts_of(tmp_path, deletion(0, 500), topic, log_start=0) == {DELETED: 500}


def test_a_run_that_deleted_nothing_says_so(tmp_path: Path) -> None:
    assert facts_of(tmp_path) == {DELETED: 0, CAME_BACK: 0}
    assert deletion_facts(as_record(tmp_path), None) == {}


def test_offsets_below_a_log_start_that_no_step_moved_expired(tmp_path: Path) -> None:
    facts_of(tmp_path, log_start=300)
    assert count_expired_records(as_record(tmp_path), []) == 300
    assert count_expired_records(as_record(tmp_path), [deletion(0, 300)]) == 0
