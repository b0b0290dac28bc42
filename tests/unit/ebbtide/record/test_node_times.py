"""The times of nodes in steps.jsonl, what a record without them says, and which logs a fault of a disk may cost."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ebbtide.errors import UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.record.log_losses import BrokerLogLoss, log_losses
from ebbtide.record.node_times import NodeTimes, Span
from ebbtide.record.steps import STEPS, StepEntry, read_steps, split_composed_steps, write_steps

WHOLE = Span(first_ns=10, last_ns=30)
FIRST, SECOND = Span(first_ns=11, last_ns=12), Span(first_ns=28, last_ns=29)


def entry(step: str, effect_ns: int | None = 30, of_node: dict[int, NodeTimes] | None = None) -> StepEntry:
    return StepEntry(index=0, step=step, nodes=(1, 2), fired_ns=10, effect_ns=effect_ns, of_node=of_node or {})


def test_times_are_read_as_they_were_written(tmp_path: Path) -> None:
    written = entry("power-loss", of_node={1: NodeTimes(ended=FIRST, log_gone=SECOND), 2: NodeTimes(ended=SECOND)})
    write_steps(RecordFolder(tmp_path), [written])
    assert (read_steps(RecordFolder(tmp_path)) or [])[0].of_node == written.of_node
    assert written.times_of(2) == NodeTimes(ended=SECOND)


@pytest.mark.parametrize(
    ("step", "times"),
    [
        ("kill", NodeTimes(ended=WHOLE)),
        ("stop", NodeTimes(ended=WHOLE)),
        ("power-loss", NodeTimes(ended=WHOLE, log_gone=WHOLE)),
        ("wipe-disk", NodeTimes(ended=WHOLE, log_gone=WHOLE)),
        ("fail-disk", NodeTimes(log_gone=WHOLE)),
        ("start", NodeTimes(started=WHOLE)),
        ("restart", NodeTimes(ended=WHOLE, started=WHOLE)),
        ("pause", NodeTimes()),
        ("a-step-of-the-future", NodeTimes()),
    ],
)
def test_without_times_of_nodes_each_node_has_those_of_the_step(step: str, times: NodeTimes) -> None:
    assert entry(step).times_of(1) == entry(step).times_of(2) == times
    assert entry(step).times_of(3) == NodeTimes()


def test_of_a_step_without_an_effect_nothing_is_known_but_what_was_measured() -> None:
    assert entry("kill", None).times_of(1) == NodeTimes()
    assert entry("kill", None, {1: NodeTimes(ended=FIRST)}).times_of(1) == NodeTimes(ended=FIRST)


def test_a_part_of_a_composed_step_has_its_own_times() -> None:
    part = {"step": "stop", "nodes": [1], "fired_ns": 10, "effect_ns": 20, "proof": {"probe": "ok"}}
    times = {"of_node": {"1": {"ended": {"first_ns": 11, "last_ns": 12}}}}
    restart = StepEntry(index=0, step="restart", nodes=(1,), proof={"parts": [part, part | times]})
    older, newer = split_composed_steps([restart])
    assert older.times_of(1) == NodeTimes(ended=Span(first_ns=10, last_ns=20))
    assert newer.times_of(1) == NodeTimes(ended=FIRST)


@pytest.mark.parametrize("span", ['{"first_ns": 2, "last_ns": 1}', '{"first_ns": 2}', "7"])
def test_a_span_that_is_none_names_the_damaged_line(tmp_path: Path, span: str) -> None:
    (tmp_path / STEPS).write_text(f'{{"index": 0, "step": "kill", "of_node": {{"1": {{"ended": {span}}}}}}}\n')
    with pytest.raises(UsageError, match=r"steps\.jsonl is damaged"):
        read_steps(RecordFolder(tmp_path))


def loss_by(step: str, **proof: object) -> BrokerLogLoss:
    (loss,) = log_losses([msgspec.structs.replace(entry(step, 2), nodes=(1,), proof=proof)])
    return loss


@pytest.mark.parametrize("step", ["fail-disk", "wipe-disk"])
def test_logs_in_the_other_directory_lost_nothing(step: str) -> None:
    loss = loss_by(step, directory=2, holds=["t-1"])
    assert loss.costs("t", 1)
    assert not loss.costs("t", 0)
    assert not loss.can_reach("t", 0, 5)


@pytest.mark.parametrize("step", ["fail-disk", "wipe-disk"])
def test_a_fault_of_all_directories_may_cost_every_log(step: str) -> None:
    loss = loss_by(step)
    assert loss.costs("t", 0)
    assert loss.costs("t", 1)


def test_a_measured_loss_counts_for_its_log_alone() -> None:
    logs = {"t-1": {"leo_before": 9, "leo_after": 4}}
    loss = loss_by("fail-disk", directory=2, holds=["t-1", "t-2"], lost_bytes=7, logs=logs)
    assert [loss.costs("t", number) for number in (0, 1, 2)] == [False, True, True]
    assert loss.can_reach("t", 1, 4)
