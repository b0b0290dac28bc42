"""no-commit-dropped-at-failover: a new coordinator may lag behind by the newest commits only."""

from __future__ import annotations

from pathlib import Path

import pytest
from clause_cases import status_of

from analysis.judge.rules.groups import no_commit_dropped_at_failover as rule

OFFSETS = "topic=__consumer_offsets"
LED = f"{OFFSETS} at=1 partition_epoch=0; {OFFSETS} at=40 leader=2 isr=2,3"
ACKED = "; ".join(f"status=acked commit={number} offset={number} at={29 + number}" for number in (1, 2, 3))
NOTHING = "status=served broker=2 at=41"


def status(folder: Path, *, acked: str = ACKED, served: str = NOTHING, led: str = LED, more: str = "") -> str:
    """What the clause finds: broker 1 acked commits at 30, 31 and 32 s, and broker 2 coordinates from 40 s on."""
    rows = f"partitions: leader=1; {led}\ncommits: {acked}; {served}\n{more}"
    return status_of(rule, folder, rows)


def shows(commit: int) -> str:
    return f"{NOTHING} commit={commit} offset={commit}"


def test_a_commit_that_two_acked_commits_follow_is_below_the_hw(tmp_path: Path) -> None:
    assert status(tmp_path) == "violated"


def test_the_newest_two_commits_may_be_above_the_hw(tmp_path: Path) -> None:
    assert status(tmp_path, served=shows(1)) == "holds"
    two = ACKED.rpartition(";")[0]
    assert status(tmp_path / "two", acked=two) == "not-exercised"


def test_an_older_commit_is_no_better_than_none(tmp_path: Path) -> None:
    four = f"{ACKED}; status=acked commit=4 offset=4 at=33"
    assert status(tmp_path, acked=four, served=shows(1)) == "violated"
    assert status(tmp_path / "known", acked=four, served=shows(2)) == "holds"


@pytest.mark.parametrize(
    "third",
    [
        "status=acked commit=3 offset=3 at=31.005",  # sent before the one before it was acked
        "status=unknown commit=3 offset=3 at=32",
        "status=acked commit=3 offset=3 at=39.95",  # perhaps the new coordinator acked it
        "status=acked commit=3 offset=3 at=32 offsets_partition=1",
    ],
)
def test_a_commit_shows_nothing_unless_it_followed_in_the_same_log(tmp_path: Path, third: str) -> None:
    assert status(tmp_path, acked=f"{ACKED.rpartition(';')[0]}; {third}") == "not-exercised"


def test_commits_of_other_groups_in_that_log_count(tmp_path: Path) -> None:
    assert status(tmp_path, acked=f"{ACKED.rpartition(';')[0]}; group=other status=acked commit=9 offset=9 at=32") == (
        "violated"
    )


@pytest.mark.parametrize(
    "served",
    [
        "status=served broker=3 at=41",
        "status=served broker=2 at=39",
        f"{NOTHING} commit=8 offset=8",  # nobody knows when it was committed
    ],
)
def test_only_answers_of_the_new_coordinator_that_say_something_count(tmp_path: Path, served: str) -> None:
    assert status(tmp_path, served=served) == "not-exercised"


@pytest.mark.parametrize(
    "led",
    [
        f"{OFFSETS} at=1 partition_epoch=0 isr=1,3; {OFFSETS} at=40 leader=2 isr=2,3",
        f"{OFFSETS} at=1 partition_epoch=0; {OFFSETS} at=35 isr=1,3; {OFFSETS} at=40 leader=2 isr=2,3",
        f"{OFFSETS} at=1 partition_epoch=0; {OFFSETS} at=36 leader=3 isr=2,3; {OFFSETS} at=40 leader=2 isr=2,3",
    ],
)
def test_a_coordinator_that_had_not_followed_the_old_one_need_not_know(tmp_path: Path, led: str) -> None:
    assert status(tmp_path, led=led) == "not-exercised"


def test_a_coordinator_that_was_restarted_has_the_hw_of_its_disk(tmp_path: Path) -> None:
    assert status(tmp_path, more="brokers: broker=2 at=35\n") == "not-exercised"
    assert status(tmp_path / "other", more="brokers: broker=3 at=35\n") == "violated"
