"""applied-isr-is-committed: what a leader applied is what the metadata log has in the end."""

from __future__ import annotations

from pathlib import Path

import pytest
from clause_cases import status_of

from analysis.judge.rules.quorum import applied_isr_is_committed as rule

LED = "leader=1; at=20 isr=1,2"


def status(folder: Path, isr: str = "1,2", epoch: int = 1, *, led: str = LED, of: str = "t-0", more: str = "") -> str:
    """What the clause finds: the metadata log has the ISR 1, 2 with partition epoch 1, and broker 1 logs another."""
    says = f"[Partition {of} broker=1] ISR updated to {isr} (under-min-isr) and version updated to {epoch}".replace(
        " ", "_"
    )
    rows = f"partitions: {led}\nlogs: node=broker-1 at=21 says={says}\n{more}"
    return status_of(rule, folder, rows)


@pytest.mark.parametrize(
    ("isr", "epoch", "found"),
    [("1,2", 1, "holds"), ("2,1", 1, "holds"), ("1,3", 1, "violated"), ("1,2", 2, "violated"), ("1", 1, "violated")],
)
def test_an_isr_that_was_applied_is_in_the_metadata_log(tmp_path: Path, isr: str, epoch: int, found: str) -> None:
    assert status(tmp_path, isr, epoch) == found


def test_a_controller_that_lost_its_log_leaves_a_doubt(tmp_path: Path) -> None:
    assert status(tmp_path, "1,3", more="steps: step=power-loss nodes=100 at=10\n") == "unknown"
    assert status(tmp_path / "broker", "1,3", more="steps: step=power-loss nodes=1 at=10\n") == "violated"


def test_a_topic_that_the_metadata_log_has_twice_or_not_at_all_says_nothing(tmp_path: Path) -> None:
    assert status(tmp_path, "1,3", of="other-0") == "not-exercised"
    twice = f"{LED}; topic=t@1 at=22"
    assert status(tmp_path / "twice", "1,3", led=twice) == "not-exercised"
