"""retention-keeps-young-records: without a config that says otherwise, a short run has its first records to the end."""

from __future__ import annotations

from pathlib import Path

import pytest
from clause_cases import status_of

from analysis.judge.rules.losses import retention_keeps_young_records as rule

WEEK = "resource=topic:t name=retention.ms value=604800000 at=0.9"
HOUR = "resource=topic:t name=retention.ms value=3600000 at=40"
BYTES = "resource=topic:t name=retention.bytes value=1000 at=0.9"


def status(folder: Path, *, log_start: int = 300, configs: str = WEEK, steps: str = "", more: str = "") -> str:
    """What the clause finds where the final log begins at 300."""
    rows = f"setting: sends log_start={log_start} {more}\nsends: 0=1\nconfigs: {configs}\n{steps}"
    return status_of(rule, folder, rows)


def test_nothing_deletes_records_that_are_minutes_old(tmp_path: Path) -> None:
    assert status(tmp_path / "gone") == "violated"
    assert status(tmp_path / "there", log_start=0) == "holds"


@pytest.mark.parametrize("configs", [f"{WEEK}; {HOUR}", f"{HOUR}; {WEEK}", BYTES])
def test_a_config_may_have_them_deleted(tmp_path: Path, configs: str) -> None:
    assert status(tmp_path, configs=configs) == "not-exercised"


def test_a_config_of_another_topic_does_not(tmp_path: Path) -> None:
    assert status(tmp_path, configs=HOUR.replace("topic:t", "topic:u")) == "violated"


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ("steps: step=delete-records nodes=1 at=30 partition=t-0 before=300", "not-exercised"),
        ("steps: step=set-clock nodes=1 at=30 offset=+1h", "violated"),
        ("steps: step=power-loss nodes=2 at=30 leo=4,3", "unknown"),
    ],
)
def test_steps_may_explain_it(tmp_path: Path, steps: str, found: str) -> None:
    assert status(tmp_path, steps=steps) == found


def test_through_published_ports_others_may_have_deleted_them(tmp_path: Path) -> None:
    assert status(tmp_path, more="published=DeleteRecords") == "not-exercised"
