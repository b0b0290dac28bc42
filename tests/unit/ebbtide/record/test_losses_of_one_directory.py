"""A fault of one log directory costs records only of the logs that were in it."""

from __future__ import annotations

import pytest

from ebbtide.record.log_losses import log_losses
from ebbtide.record.steps import StepEntry


def entry(step: str, **proof: object) -> StepEntry:
    return StepEntry(index=0, step=step, trigger={}, parameters={}, nodes=(1,), fired_ns=1, effect_ns=2, proof=proof)


@pytest.mark.parametrize("step", ["fail-disk", "wipe-disk"])
def test_logs_in_the_other_directory_lost_nothing(step: str) -> None:
    (loss,) = log_losses([entry(step, directory=2, holds=["t-1"])])
    assert loss.costs("t", 1)
    assert not loss.costs("t", 0)
    assert not loss.can_reach("t", 0, 5)


@pytest.mark.parametrize("step", ["fail-disk", "wipe-disk"])
def test_a_fault_of_all_directories_may_cost_every_log(step: str) -> None:
    (loss,) = log_losses([entry(step)])
    assert loss.costs("t", 0)
    assert loss.costs("t", 1)


def test_a_measured_loss_counts_for_its_log_alone() -> None:
    logs = {"t-1": {"leo_before": 9, "leo_after": 4}}
    (loss,) = log_losses([entry("fail-disk", directory=2, holds=["t-1", "t-2"], lost_bytes=7, logs=logs)])
    assert [loss.costs("t", number) for number in (0, 1, 2)] == [False, True, True]
    assert loss.can_reach("t", 1, 4)
