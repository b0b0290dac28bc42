"""Elections that are easily mistaken: for another kind, for one that an operator asked for, or for none at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from four_brokers import four_brokers
from judge_records import BEFORE_KIP_903, ELR_ON, Story, by_name, cause_and_leader, only_loss


def set_parameters(story: Story, **parameters: Any) -> None:
    assert story.steps is not None
    story.steps[-1] = msgspec.structs.replace(story.steps[-1], parameters=parameters)


@pytest.mark.parametrize(("unclean", "cause"), [(True, "unclean-election"), (False, "unexplained")])
def test_a_cancelled_reassignment_whose_new_replicas_are_the_isr_elects_uncleanly(
    tmp_path: Path, unclean: bool, cause: str
) -> None:
    story = four_brokers(tmp_path, unclean=unclean, min_isr=1)
    story.state(1, replicas=[1, 2], isr=[1, 2])
    story.state(2, replicas=[4, 1, 2], adding=[4], removing=[1, 2])
    story.state(3, isr=[1, 4])
    story.state(6, leader=4, isr=[4])
    story.step(10, "reassign")
    set_parameters(story, partition="t-0", cancel=True)
    story.state(10.05, leader=1, isr=[1], replicas=[1, 2], adding=[], removing=[])
    story.lose(100, 199, acked_s=8)
    story.log(1, (0, 0, 99), (2, 100, 120))
    verdict = story.judge()
    assert only_loss(verdict).cause == cause
    assert by_name(verdict)["election-outside-isr-and-elr-shows-recovering"] == "not-exercised"


@pytest.mark.parametrize(
    ("features", "cause"), [(BEFORE_KIP_903, "stale-isr-join"), ({"metadata.version": 11}, "unexplained")]
)
def test_a_broker_may_join_the_isr_with_the_record_that_completes_a_reassignment_and_elects_it(
    tmp_path: Path, features: dict[str, int], cause: str
) -> None:
    story = four_brokers(tmp_path, kafka="3.5.2", features=features, unclean=False)
    story.state(1, replicas=[1, 2], isr=[1, 2])
    story.state(2, replicas=[3, 2, 1], adding=[3], removing=[1])
    story.step(10, "wipe-disk", 3)
    story.broker(20, 3)
    story.state(22, replicas=[3, 2], adding=[], removing=[], isr=[2, 3], leader=3)
    story.lose(0, 99, acked_s=5)
    assert only_loss(story.judge()).cause == cause


@pytest.mark.parametrize("has_log", [True, False])
def test_a_broker_that_runs_on_without_one_of_its_disks_may_lead(tmp_path: Path, has_log: bool) -> None:
    story = four_brokers(tmp_path, unclean=True)
    story.state(1)
    story.step(2, "fail-disk", 2, holds=["u-0"])
    set_parameters(story, directory=2)
    story.state(8, isr=[1])
    story.step(10, "kill", 1)
    story.state(19, leader=2, isr=[2], leader_recovery_state=1)
    story.state(20, isr=[2, 3], leader_recovery_state=0)
    story.state(30, leader=3)
    story.lose(50, 99, acked_s=9)
    if has_log:
        story.log(3, (0, 0, 49), (1, 50, 120), (2, 121, 130))
    assert cause_and_leader(story.judge()) == ("unclean-election", 2, 1)


@pytest.mark.parametrize(("on_s", "cause"), [(26, "last-replica-standing"), (22, "unexplained")])
def test_a_broker_leaves_the_isr_as_it_registers_if_the_elr_is_on_by_then(
    tmp_path: Path, on_s: float, cause: str
) -> None:
    story = four_brokers(
        tmp_path, kafka="4.1.1", features={**ELR_ON, "eligible.leader.replicas.version": 0}, unclean=False
    )
    story.state(1)
    story.state(5, isr=[1])
    story.power_loss(10, 1)
    story.state(19, leader=-1)
    events = {25: lambda: story.broker(25, 1), on_s: lambda: switch_elr_on(story, on_s)}
    for at_s in sorted(events):
        events[at_s]()
    story.state(28, leader=1)
    story.lose(0, 99, acked_s=4)
    assert only_loss(story.judge()).cause == cause


def switch_elr_on(story: Story, at_s: float) -> None:
    story.config(at_s, "feature:eligible.leader.replicas.version", "level", "1")


@pytest.mark.parametrize(("raised_s", "cause"), [(3, "unexplained"), (12, "last-known-leader")])
def test_the_min_isr_at_the_time_of_the_losses_counts(tmp_path: Path, raised_s: float, cause: str) -> None:
    story = four_brokers(tmp_path, kafka="4.3.1", features=ELR_ON, unclean=False)
    story.config(0.7, "topic:t", "min.insync.replicas", "2")
    story.state(1)
    events = {
        raised_s: lambda: story.config(raised_s, "topic:t", "min.insync.replicas", "3"),
        8: lambda: story.state(8, isr=[1, 2]),
        13: lambda: story.state(13, leader=-1, isr=[], last_known_elr=[1]),
    }
    for at_s in sorted(events):
        events[at_s]()
    story.power_loss(10, 1)
    story.power_loss(10, 2)
    story.broker(20, 1)
    story.state(21, leader=1, isr=[1], last_known_elr=[], leader_recovery_state=1)
    story.lose(0, 99, acked_s=4)
    assert only_loss(story.judge()).cause == cause
