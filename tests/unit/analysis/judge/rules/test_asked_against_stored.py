"""Clauses that hold what clients and steps asked for against what Kafka stored, on records made of a few rows."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from clause_cases import checked, judged
from worked_examples import example_of, record_of

from analysis.judge.rules.groups import served_offset_is_the_one_committed as served_offset
from analysis.judge.rules.rule import DeclaredRule


def status(rule: ModuleType, folder: Path, rows: str) -> str:
    """What a clause finds in a record of these rows, which are written as in an example."""
    example = example_of(DeclaredRule(module="made", example=f"Rows.\n{rows}\ngives:"))
    record_of(example, folder / "record")
    return checked(rule, judged(folder / "record")).found.status


MADE = "commits: status=acked commit=1 offset=1; status=unknown commit=2 offset=4"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("", "not-exercised"),
        ("; status=served broker=1", "not-exercised"),  # the group has no offset
        ("; status=served broker=1 offset=9", "not-exercised"),  # a commit of nobody whom the record knows
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
