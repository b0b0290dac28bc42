"""no-hw-served-below-the-epoch-start: a leader waits with its answers until its HW has reached its epoch."""

from __future__ import annotations

from pathlib import Path

import pytest
from clause_cases import status_of

from analysis.judge.rules.leaders import no_hw_served_below_the_epoch_start as rule

LOG = "broker=2 0=1 1=2; broker=2 leader_epoch=1 2=3"
FIRST = "broker=2 leader_epoch=1 high_watermark=2 at=10"


def status(folder: Path, *, served: str, first: str = FIRST, log: str = LOG) -> str:
    """What the clause finds: epoch 1 begins at offset 2, and its leader answered at 10 s."""
    rows = f"replicas: {log}\nwatermarks: {first}; {served}"
    return status_of(rule, folder, rows)


def answer(hw: int, at: float = 11, more: str = "") -> str:
    return f"broker=2 leader_epoch=1 high_watermark={hw} at={at} {more}"


@pytest.mark.parametrize(("hw", "found"), [(0, "violated"), (1, "violated"), (2, "holds"), (3, "holds")])
def test_a_hw_that_is_served_has_reached_the_start_of_the_epoch(tmp_path: Path, hw: int, found: str) -> None:
    assert status(tmp_path, served=answer(hw)) == found


def test_an_answer_may_have_a_hw_that_was_read_before_the_check(tmp_path: Path) -> None:
    """Until the first answer came, nothing shows that the HW has reached the start."""
    assert status(tmp_path, served=answer(1, at=10)) == "not-exercised"
    assert status(tmp_path / "before", served=f"{answer(1, at=9)}; {answer(2)}") == "holds"


@pytest.mark.parametrize(
    "more", ["source=fetch", "source=checkpoint", "leader_epoch=0", "leader_epoch=-", "asked_ns=-"]
)
def test_only_answers_for_the_latest_offset_under_that_epoch_count(tmp_path: Path, more: str) -> None:
    assert status(tmp_path, served=answer(1, more=more)) == "not-exercised"


@pytest.mark.parametrize(
    "log",
    [
        "broker=2 0=1; broker=2 leader_epoch=1 2=3",  # the epoch may begin at offset 1
        "broker=2 leader_epoch=1 2=3",  # older records were deleted
        "broker=2 0=1; broker=1 1=2; broker=2 leader_epoch=1 2=3",  # of another log
        "broker=2 0=1 1=2",
    ],
)
def test_a_log_without_the_record_before_an_epoch_does_not_say_where_it_begins(tmp_path: Path, log: str) -> None:
    assert status(tmp_path, served=answer(1), log=log) == "not-exercised"


def test_the_log_of_any_replica_says_it(tmp_path: Path) -> None:
    assert status(tmp_path, served=answer(1), log="broker=3 0=1 1=2; broker=3 leader_epoch=1 2=3") == "violated"


def test_where_a_controller_lost_its_log_two_leaders_may_have_had_one_epoch(tmp_path: Path) -> None:
    lost = "\nsteps: step=wipe-disk nodes=100 at=5"
    assert status(tmp_path, served=answer(1) + lost) == "unknown"
