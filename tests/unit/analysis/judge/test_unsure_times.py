"""A clock that was set back neither accuses Kafka nor excuses a loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from judge_records import ELR_ON, Story, by_name, last_replica_standing, ns

API = "api-agrees-with-log"


def _set_back(story: Story, at_s: float) -> None:
    """Let a leader's answers show that the clock was set back by 3 s at `at_s`."""
    story.hw(at_s, 1, 0, 5)
    story.hw(at_s - 2.9, 1, 0, 5)


def test_a_loss_after_the_clock_was_set_back_is_not_excused(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    assert [one.cause for one in story.judge().losses] == ["last-replica-standing"]
    _set_back(story, 13)
    verdict = story.judge()
    assert verdict.losses == []
    assert verdict.outcome == "inconclusive"
    assert any("the clock was set back at or after" in one for one in verdict.why)


def test_a_loss_before_the_clock_was_set_back_keeps_its_cause(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    _set_back(story, 40)
    assert [one.cause for one in story.judge().losses] == ["last-replica-standing"]


def test_a_loss_without_a_cause_is_no_accusation_if_the_clock_was_set_back(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.lose(0, 9, acked_s=5)
    assert story.judge().outcome == "contradicted"
    _set_back(story, 30)
    assert story.judge().outcome == "inconclusive"


@pytest.mark.parametrize("back_s", [1, 3, 3600])
def test_answers_of_brokers_accuse_nobody_after_the_clock_was_set_back(tmp_path: Path, back_s: int) -> None:
    story = Story(tmp_path, kafka="4.3.1", features=ELR_ON)
    story.broker(0, 1)
    story.state(1)
    story.state(10, isr=[1, 2])
    row: dict[str, Any] = {"topic": "t", "partition": 0, "broker": 1, "leader": 1, "leader_epoch": 0, "elr": []}
    for at_s, isr in ((9.5, [1, 2, 3]), (10.5 - back_s, [1, 2])):
        times = {"asked_ns": ns(at_s), "at_ns": ns(at_s + 0.01)}
        story.tables["described"].append(row | {"last_known_elr": [], "isr": isr} | times)
    verdict = story.judge()
    assert by_name(verdict)[API] == "unknown"
    assert verdict.outcome != "contradicted"


def test_a_decision_that_no_time_made_stays_a_violation(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.state(10, leader=3, isr=[1, 2])
    _set_back(story, 5)
    assert by_name(story.judge())["leader-in-isr"] == "violated"
