"""log-start-is-taken-over: a leader that knew a log start does not serve an older one, unless it was restarted."""

from __future__ import annotations

from pathlib import Path

import pytest
from clause_cases import status_of

from analysis.judge.rules.losses import log_start_is_taken_over as rule

LED = "leader=1; at=50 leader=2 isr=2,3"


def status(folder: Path, *, led: str = LED, sent: str = "600=1 at=40", moved: str = "0,500", more: str = "") -> str:
    """What the clause finds: broker 1 moves its log start at 30 s, and the final read begins at 0."""
    steps = f"steps: step=delete-records nodes=1 at=30 partition=t-0 before=500 log_start={moved}"
    rows = f"partitions: {led}\nsends: {sent}\npolls: final 600=1\n{steps}\n{more}"
    return status_of(rule, folder, rows)


def test_a_leader_that_had_fetched_the_log_start_serves_no_older_one(tmp_path: Path) -> None:
    assert status(tmp_path) == "violated"
    assert status(tmp_path / "before", moved="0,0") == "not-exercised"


def test_the_leader_that_moved_it_serves_no_older_one(tmp_path: Path) -> None:
    assert status(tmp_path, led="leader=1", sent="600=1 at=20") == "violated"


@pytest.mark.parametrize(
    "sent",
    [
        "600=1 at=30",  # it was sent before the leader had said its log start
        "600=1 at=49.9",  # perhaps the new leader acked it
        "600=1 at=40 acks=1",
        "600=1 at=40 status=unknown",
    ],
)
def test_a_follower_that_need_not_have_fetched_since_may_not_know(tmp_path: Path, sent: str) -> None:
    assert status(tmp_path, sent=sent) == "holds"


@pytest.mark.parametrize(
    "led",
    [
        "leader=1 isr=1,3; at=50 leader=2 isr=2,3",
        "leader=1; at=35 isr=1,3; at=50 leader=2 isr=2,3",
        "leader=1; at=45 leader=3 isr=2,3; at=50 leader=2 isr=2,3",  # broker 3 may not have known
    ],
)
def test_a_leader_by_another_way_may_not_know(tmp_path: Path, led: str) -> None:
    assert status(tmp_path, led=led) == "holds"


def test_a_leader_that_was_restarted_may_have_forgotten(tmp_path: Path) -> None:
    assert status(tmp_path, more="brokers: broker=2 at=45\n") == "holds"
    assert status(tmp_path / "before", more="brokers: broker=2 at=10\n") == "violated"
