"""A commit of a member whose partition another member has taken over is stored no more."""

from __future__ import annotations

from pathlib import Path

import pytest
from clause_cases import checked, judged
from worked_examples import example_of, record_of

from analysis.judge.rules.groups import no_commit_of_a_replaced_member as rule

OLD = "status=unknown commit=1 offset=5 consumer=1 at=30"
NEW = "status=acked commit=2 offset=9 consumer=2 at=31"


def served(commit: int, at: int, broker: int = 1) -> str:
    return f"status=served broker={broker} commit={commit} offset=5 at={at}"


def status(folder: Path, *commits: str, states: str = "topic=__consumer_offsets") -> str:
    example = example_of(rule.RULE)
    rows = {**example.rows, "commits": list(commits), "partitions": states.split(";")}
    record_of(example._replace(rows=rows), folder / "record")
    return checked(rule, judged(folder / "record")).found.status


def test_the_commit_of_a_replaced_member_is_not_served_again(tmp_path: Path) -> None:
    assert status(tmp_path, OLD, NEW, served(2, 32), served(1, 33)) == "violated"


@pytest.mark.parametrize(
    "old",
    [
        "status=unknown commit=1 offset=5 consumer=2 at=30",  # its own, which arrives late
        "status=acked commit=1 offset=5 consumer=1 at=32",  # sent later: the partition came back
    ],
)
def test_a_member_that_may_commit_is_not_accused(tmp_path: Path, old: str) -> None:
    assert status(tmp_path, old, NEW, served(2, 32), served(1, 33)) != "violated"


def test_another_coordinator_or_a_new_one_says_nothing(tmp_path: Path) -> None:
    assert status(tmp_path, OLD, NEW, served(2, 32), served(1, 33, broker=2)) == "not-exercised"
    led = "topic=__consumer_offsets;topic=__consumer_offsets leader=2 at=32;topic=__consumer_offsets leader=1 at=32.5"
    assert status(tmp_path / "later", OLD, NEW, served(2, 31), served(1, 33), states=led) == "not-exercised"
