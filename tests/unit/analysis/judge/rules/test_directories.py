"""directory-is-assigned-before-a-move-ends: the metadata log names the directory that a replica moved to."""

from __future__ import annotations

from pathlib import Path

import evidence_builders as build
import msgspec
import pytest
from clause_cases import checked, judged
from worked_examples import MadeRule, example_of, record_of

from analysis.judge.rules.partitions import directory_is_assigned_before_a_move_ends as rule
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest, write_manifest

MOVED = "node=broker-2 at=30 says=The_current_replica_is_successfully_replaced_with_the_future_replica_for_t-0"


def record(folder: Path, *, more: str = "", directory: str = "A,B", log: str = MOVED, setting: str = "") -> Path:
    """The record of a move; `directory`: the one that the metadata log names, and the one that has the replica."""
    rows = ["Rows.", f"setting: directory={directory} {setting}", f"logs: {log}", more or "partitions: leader=1"]
    record_of(example_of(MadeRule(example="\n".join([*rows, "gives:"]))), folder / "record")
    return folder / "record"


def status(folder: Path, **rows: str) -> str:
    """What the clause finds."""
    return checked(rule, judged(record(folder, **rows))).found.status


def test_the_metadata_log_names_where_the_replica_is(tmp_path: Path) -> None:
    assert status(tmp_path / "other") == "violated"
    assert status(tmp_path / "same", directory="B,B") == "holds"


def test_the_last_record_that_names_directories_counts(tmp_path: Path) -> None:
    at = record(tmp_path, directory="B,B")
    later = build.metadata_batch(2, build.change("T", 0, leader=3), build.change("T", 0, replicas=(1, 2)))
    log = at / "raw" / "controller-100" / "__cluster_metadata-0"
    (log / build.segment_name(2)).write_bytes(later)
    assert checked(rule, judged(at)).found.status == "holds"


@pytest.mark.parametrize(
    "rows",
    [
        {"log": MOVED.replace("t-0", "t-01")},
        {"setting": "kafka=3.8.1"},  # it does not wait for the controller
        {"more": "steps: step=power-loss nodes=2 at=40"},  # the move may be undone
        {"more": "steps: step=wipe-disk nodes=2 at=40"},
        {"more": "partitions: leader=1; at=40 replicas=1,3; at=50 replicas=1,2,3"},  # it came anew
    ],
    ids=["another-partition", "older-release", "power-loss", "new-disk", "reassigned"],
)
def test_only_what_stayed_where_it_was_moved_to_counts(tmp_path: Path, rows: dict[str, str]) -> None:
    assert status(tmp_path, **rows) == "not-exercised"


def test_trouble_before_the_move_is_no_excuse(tmp_path: Path) -> None:
    assert status(tmp_path, more="steps: step=power-loss nodes=2 at=20; step=start nodes=2 at=25") == "violated"


def test_a_run_that_ended_early_may_lack_the_end_of_the_metadata_log(tmp_path: Path) -> None:
    at = RecordFolder(record(tmp_path))
    write_manifest(at, msgspec.structs.replace(read_manifest(at), status="interrupted"))
    assert checked(rule, judged(tmp_path / "record")).found.status == "unknown"
