"""no-read-above-the-hw: what a consumer read is below every HW that the leader of its epoch serves afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from clause_cases import status_of

from analysis.judge.rules.reads import no_read_above_the_hw as rule

LED = "leader=1"
READ = "3=1 at=5"
FIRST = "high_watermark=0 at=2"
SERVED = f"{FIRST}; high_watermark=2 at=6"


def status(folder: Path, *, led: str = LED, read: str = READ, served: str = SERVED, more: str = "") -> str:
    """What the clause finds: offset 3 was read at 5 s, and the leader served HW 2 when it was asked at 6 s."""
    rows = f"partitions: {led}\npolls: {read}\nwatermarks: {served}\n{more}"
    return status_of(rule, folder, rows)


@pytest.mark.parametrize(("hw", "found"), [(2, "violated"), (3, "violated"), (4, "holds")])
def test_a_record_that_was_read_is_below_the_hw_that_is_served_afterwards(tmp_path: Path, hw: int, found: str) -> None:
    assert status(tmp_path, served=f"{FIRST}; high_watermark={hw} at=6") == found


def test_a_hw_that_the_leader_was_asked_for_before_the_read_may_be_low(tmp_path: Path) -> None:
    assert status(tmp_path, served="high_watermark=2 at=4; high_watermark=4 at=6") == "holds"


def test_the_read_that_counts_is_any_before_the_question(tmp_path: Path) -> None:
    assert status(tmp_path, read="3=1 at=5; 1=2 at=5.5; 5=3 at=7") == "violated"


def test_a_low_hw_counts_whatever_was_served_later(tmp_path: Path) -> None:
    assert status(tmp_path, served=f"{SERVED}; high_watermark=9 at=7") == "violated"


@pytest.mark.parametrize(
    "served",
    [
        "leader_epoch=1",  # a new leader may not know the HW yet
        "broker=2",
        "source=fetch",
        "source=checkpoint",
    ],
)
def test_only_the_leader_of_the_records_epoch_says_something(tmp_path: Path, served: str) -> None:
    assert status(tmp_path, served=f"{FIRST} {served}; high_watermark=2 at=6 {served}") == "not-exercised"


def test_the_first_answer_of_an_epoch_may_have_a_hw_that_was_read_before(tmp_path: Path) -> None:
    assert status(tmp_path, served="high_watermark=2 at=6; high_watermark=4 at=7") == "holds"


def test_a_record_that_was_read_in_a_newer_epoch_may_be_from_the_new_leader(tmp_path: Path) -> None:
    assert status(tmp_path, led=f"{LED}; at=4 leader=2") == "holds"
    assert status(tmp_path / "later", led=f"{LED}; at=5.5 leader=2") == "violated"


def test_a_leader_that_was_restarted_in_its_epoch_says_nothing(tmp_path: Path) -> None:
    assert status(tmp_path, more="brokers: broker=1 at=5.5\n") == "not-exercised"


def test_a_hw_that_went_back_is_of_another_clause(tmp_path: Path) -> None:
    assert status(tmp_path, served=f"high_watermark=5 at=4; {SERVED}") == "not-exercised"
