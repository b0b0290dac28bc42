"""stale-isr-change-is-refused: an AlterPartition that is based on an older state is answered with an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from clause_cases import status_of

from analysis.judge.rules.quorum import stale_isr_change_is_refused as rule

AGAIN = "partitions: leader=1; at=30 isr=1,2; at=40 leader=2 isr=2"
TWICE = "event=duplicated at=29 epoch=0; event=answered at=29.1 error={} epoch=1; event=discarded at=29.2 error={}"


def status(folder: Path, requests: str, *rows: str) -> str:
    """What the clause finds."""
    text = "\n".join([*(rows or [AGAIN]), f"requests: {requests}"])
    return status_of(rule, folder, text)


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [(0, 0, "violated"), (0, 95, "holds"), (95, 0, "not-exercised"), (95, 95, "not-exercised")],
)
def test_the_copy_of_a_request_that_was_carried_out_is_refused(
    tmp_path: Path, first: int, second: int, found: str
) -> None:
    assert status(tmp_path, TWICE.format(first, second)) == found


def held(until: float, error: int, **epochs: int) -> str:
    """A request that was held until some time."""
    said = " ".join(f"{name}={value}" for name, value in epochs.items())
    return f"event=held at=20 {said}; event=forwarded at={until}; event=answered at={until + 0.1} error={error}"


@pytest.mark.parametrize(
    "stale", [{"epoch": 0}, {"leader_epoch": 0}, {"broker_epoch": 1}], ids=["partition", "leader", "broker"]
)
def test_a_request_that_arrives_when_the_metadata_log_has_a_newer_epoch_is_refused(
    tmp_path: Path, stale: dict[str, int]
) -> None:
    again = "brokers: at=45 broker=1"
    assert status(tmp_path / "taken", held(50, 0, **stale), AGAIN, again) == "violated"
    assert status(tmp_path / "refused", held(50, 95, **stale), AGAIN, again) == "holds"
    assert status(tmp_path / "before", held(29, 0, **stale), AGAIN, again) == "not-exercised"
    assert status(tmp_path / "unanswered", "event=held at=20 epoch=0; event=forwarded at=50") == "not-exercised"


def test_a_controller_that_lost_its_log_may_have_forgotten_an_epoch(tmp_path: Path) -> None:
    lost = "steps: step=wipe-disk nodes=100 at=5"
    assert status(tmp_path, TWICE.format(0, 0), AGAIN, lost) == "unknown"
