"""Clauses that hold what clients and steps asked for against what Kafka stored, on records made of a few rows."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from clause_cases import checked, judged
from worked_examples import MadeRule, example_of, record_of, write_transaction

from analysis.judge.rules.groups import served_offset_is_the_one_committed as served_offset
from analysis.judge.rules.losses import log_start_as_asked as log_start
from analysis.judge.rules.transactions import markers_as_answered as markers
from ebbtide.record.manifest import FinalOffsets


def status(rule: ModuleType, folder: Path, rows: str) -> str:
    """What a clause finds in a record of these rows, which are written as in an example."""
    example = example_of(MadeRule(example=f"Rows.\n{rows}\ngives:"))
    record_of(example, folder / "record")
    return checked(rule, judged(folder / "record")).found.status


MADE = "commits: status=acked commit=1 offset=1; status=unknown commit=2 offset=4"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("", "not-exercised"),
        ("; status=served broker=1", "not-exercised"),  # the group has no offset
        ("; status=served broker=1 offset=9", "not-exercised"),  # a commit without a number
        ("; status=served broker=1 commit=1 offset=1", "holds"),
        ("; status=served broker=1 commit=2 offset=4", "holds"),  # nobody knew what became of it
        ("; status=served broker=1 commit=1 offset=6", "violated"),
        ("; status=served broker=1 commit=2 offset=0", "violated"),
        ("; status=served broker=1 commit=1 offset=6; status=acked commit=1 offset=6 at=60", "holds"),
        ("; status=served broker=1 commit=3 offset=9", "unknown"),
        ("; status=served broker=1 commit=1 offset=1 partition=1", "unknown"),
    ],
)
def test_a_coordinator_serves_the_offset_that_its_commit_asked_for(tmp_path: Path, answer: str, expected: str) -> None:
    assert status(served_offset, tmp_path, MADE + answer) == expected


def test_a_record_without_commits_says_nothing_of_served_offsets(tmp_path: Path) -> None:
    assert status(served_offset, tmp_path, "sends: 0=1") == "not-exercised"


ASKED = "setting: sends\nsends: 0=1\npolls: final 0=1\nsteps: step=delete-records nodes=1 at=30 partition=t-0"
"""A step deletes records; the final log starts at 0, where its disk was lost or nothing was deleted."""


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (" before=500 log_start=0,500", "holds"),
        (" before=500 log_start=0,1011", "violated"),
        (" before=500 log_start=0,499", "violated"),
        (" before=500 log_start=0,0 answer=OFFSET_OUT_OF_RANGE", "holds"),
        (" before=500 log_start=0,0 answer=REQUEST_TIMED_OUT", "holds"),
        (" before=500 log_start=0,1011 answer=REQUEST_TIMED_OUT", "violated"),
        (" before=500 log_start=600,600", "holds"),  # somebody had asked for more, or retention deleted it before
        (" log_start=0,900", "not-exercised"),  # the step asked for the HW
        (" before=500 log_start=0,900; step=delete-records nodes=1 at=31 partition=t-0 log_start=900,900", "holds"),
        (" before=500 log_start=0,900; step=delete-records nodes=1 at=31 partition=t-0 before=900", "holds"),
        (" before=500 log_start=0,900; step=set-clock nodes=1 at=1", "unknown"),
        (" before=500 log_start=0,900; step=set-config nodes=1 at=1 resource=topic:t config=retention.ms", "unknown"),
        (" before=500 log_start=0,900\nconfigs: resource=topic:t name=cleanup.policy value=compact at=1", "unknown"),
    ],
)
def test_a_log_start_moves_to_the_offset_that_a_step_asked_for(tmp_path: Path, step: str, expected: str) -> None:
    assert status(log_start, tmp_path, ASKED + step) == expected


def test_nobody_bounds_a_log_start_of_records_whose_age_is_not_known(tmp_path: Path) -> None:
    rows = f"{ASKED} before=500 log_start=0,900".removeprefix("setting: sends\n")
    assert status(log_start, tmp_path, rows) == "unknown"


def test_a_record_without_such_a_step_says_nothing_of_log_starts(tmp_path: Path) -> None:
    assert status(log_start, tmp_path, "sends: 0=1") == "not-exercised"


FINAL = {500: "holds", 501: "violated"}


def final_status(folder: Path, log_start_of_step: str, final: int) -> str:
    """What the clause finds where the final log starts here, after a step that asked for 500."""
    rows = f"Rows.\n{ASKED} before=500 log_start={log_start_of_step}\ngives:"
    manifest = record_of(example_of(MadeRule(example=rows)), folder / "record").manifest
    ends = {"t-0": FinalOffsets(log_start=final, high_watermark=900)}
    made = judged(folder / "record", manifest=msgspec.structs.replace(manifest, final_offsets=ends))
    return checked(log_start, made).found.status


@pytest.mark.parametrize("final", FINAL)
def test_the_final_log_starts_where_a_step_asked_for_it_at_most(tmp_path: Path, final: int) -> None:
    assert final_status(tmp_path, "0,500", final) == FINAL[final]


def test_the_final_log_may_start_where_it_started_before_the_step(tmp_path: Path) -> None:
    assert final_status(tmp_path, "600,600", 600) == "holds"


def ended(outcome: str, marker: str, more: str = "") -> str:
    """A transaction that ended with this outcome, by the producer, and with this marker, by the log."""
    sent = f"sends: offset=0 value=1 txn=1 txn_outcome={outcome}\npolls: final 0=1 1=-"
    return f"setting: transactional marker={marker}\n{sent}\n{more}"


@pytest.mark.parametrize(
    ("outcome", "marker", "expected"),
    [
        ("committed", "commit,0", "holds"),
        ("committed", "commit,1", "holds"),
        ("committed", "abort,0", "violated"),
        ("committed", "abort,1", "violated"),
        ("aborted", "abort,0", "holds"),
        ("aborted", "abort,1", "holds"),
        ("aborted", "commit,0", "holds"),  # a late EndTxn may have come before the producer's own: KAFKA-17754
        ("aborted", "commit,1", "violated"),
        ("unknown", "abort,0", "not-exercised"),
    ],
)
def test_a_marker_says_what_the_producer_was_told(tmp_path: Path, outcome: str, marker: str, expected: str) -> None:
    assert status(markers, tmp_path, ended(outcome, marker)) == expected


@pytest.mark.parametrize(
    "doubt",
    [
        "steps: step=wipe-disk nodes=2 at=10",
        "steps: step=hold-request nodes=1 at=10 api=EndTxn",
        "partitions: leader=1; at=5 leader=2 isr=2; at=6 leader=3 isr=3 leader_recovery_state=1",
    ],
)
def test_a_marker_that_a_loss_or_a_late_request_explains_is_unknown(tmp_path: Path, doubt: str) -> None:
    assert status(markers, tmp_path, ended("committed", "abort,0", doubt)) == "unknown"


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"commits": False}, "violated"),
        ({"commits": True}, "unknown"),  # the replicas differ
        ({"commits": True, "marker_at": 9}, "violated"),  # something is missing before that one: it shows nothing
    ],
)
def test_each_replica_must_have_the_same_marker(tmp_path: Path, other: dict[str, Any], expected: str) -> None:
    example = example_of(MadeRule(example=f"Rows.\n{ended('committed', 'abort,0')}\ngives:"))
    record_of(example, tmp_path / "record")
    write_transaction(tmp_path / "record" / "raw" / "broker-2" / "t-0", **other)
    assert checked(markers, judged(tmp_path / "record")).found.status == expected


def test_a_marker_behind_a_gap_or_above_the_hw_or_in_no_log_is_unknown(tmp_path: Path) -> None:
    rows = ended("committed", "abort,0")
    assert status(markers, tmp_path / "above", rows.replace("0=1 1=-", "0=1")) == "unknown"
    assert status(markers, tmp_path / "none", rows.replace(" marker=abort,0", "")) == "unknown"
