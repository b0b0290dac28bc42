"""clean-stop-flushes-every-log: a power loss after a clean stop takes nothing of a log."""

from __future__ import annotations

from pathlib import Path

import pytest
from clause_cases import status_of

from analysis.judge.rules.losses import clean_stop_flushes_every_log as rule

STOP = "step=stop nodes=2 at=20"
LOSS = "step=power-loss nodes=2 at=30 leo=4,3"


def status(folder: Path, steps: str) -> str:
    """What the clause finds where a topic has three replicas, and these steps ran."""
    rows = f"partitions: leader=1\nsteps: {steps}"
    return status_of(rule, folder, rows)


def test_a_power_loss_after_a_clean_stop_takes_nothing(tmp_path: Path) -> None:
    assert status(tmp_path / "lost", f"{STOP}; {LOSS}") == "violated"
    assert status(tmp_path / "kept", f"{STOP}; {LOSS.replace('4,3', '4,4')}") == "holds"


@pytest.mark.parametrize(
    "steps",
    [
        LOSS,
        f"step=kill nodes=2 at=20; {LOSS}",
        f"step=stop nodes=3 at=20; {LOSS}",
        f"{STOP}; step=start nodes=2 at=25; {LOSS}",
        f"{STOP}; {LOSS} method=truncate",
        f"{STOP} effect=-; {LOSS}",  # it may have ended in a crash
    ],
)
def test_only_a_broker_that_stays_down_after_its_stop_has_flushed_all(tmp_path: Path, steps: str) -> None:
    assert status(tmp_path, steps) == "not-exercised"


def test_trouble_with_the_disk_may_explain_it(tmp_path: Path) -> None:
    assert status(tmp_path, f"step=slow-disk nodes=2 at=10; {STOP}; {LOSS}") == "unknown"
