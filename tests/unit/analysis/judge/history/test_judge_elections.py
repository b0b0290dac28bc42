"""Which election is guilty of a loss, and of a high watermark that went back."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_records import Story, by_name, cause_and_leader, last_replica_standing

from analysis.evidence.report import ControllerLog, TimelineReport, save
from ebbtide.logs.scan import Damage
from ebbtide.record.files import RecordFolder


def late_answer(record: Path, *answers: int) -> Story:
    """The leader is killed; the next one has all its records, writes none, and serves these HWs."""
    story = Story(record)
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.state(1)
    story.hw(8, 1, 0, 1166)
    story.step(9, "kill", 1)
    story.state(12, leader=2, isr=[2, 3])
    for at, hw in enumerate(answers):
        story.hw(12.5 + at, 2, 1, hw)
    story.regress(1166, min(answers), epochs=(0, 1), at_s=(8, 12.5))
    story.predict("")
    return story


@pytest.mark.parametrize("answers", [(1165, 1166), (1165,)])
@pytest.mark.parametrize("logs", [True, False])
def test_a_new_leaders_one_answer_with_a_lower_hw_does_not_show_that_it_lacked_a_record(
    tmp_path: Path, answers: tuple[int, ...], logs: bool
) -> None:
    story = late_answer(tmp_path, *answers)
    if logs:
        story.log(2, (0, 0, 1165))
        story.log(3, (0, 0, 1165))
    verdict = story.judge()
    assert verdict.outcome != "contradicted"
    assert not verdict.regressions
    assert by_name(verdict)["no-hw-regression-unless-allowed"] == "unknown"


def test_a_new_leader_that_answers_twice_with_a_lower_hw_lacked_the_record(tmp_path: Path) -> None:
    verdict = late_answer(tmp_path, 1165, 1165).judge()
    assert verdict.outcome == "contradicted"
    assert [(one.cause, one.election and one.election.leader) for one in verdict.regressions] == [("unexplained", 2)]


def test_answers_that_were_under_way_at_the_same_time_are_as_good_as_one(tmp_path: Path) -> None:
    story = late_answer(tmp_path, 1165, 1165)
    story.tables["watermarks"][-1]["asked_ns"] = story.tables["watermarks"][-2]["asked_ns"]
    assert story.judge().outcome != "contradicted"
    story.tables["watermarks"][-1]["asked_ns"] = None
    assert story.judge().outcome != "contradicted"


def test_one_range_lost_in_two_elections_is_split_between_them(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.step(9, "kill", 1)
    story.state(12, leader=2, isr=[2, 3])
    story.state(20, leader=3, isr=[3])
    story.log(2, (0, 0, 59), (1, 60, 65))
    story.log(3, (0, 0, 49), (2, 50, 55))
    story.lose(50, 69, acked_s=8, acks=1, committed=False, epoch=0)
    losses = {one.election and one.election.leader_epoch: one for one in story.judge().losses}
    assert (losses[2].first_offset, losses[2].last_offset, losses[2].count) == (50, 59, 10)
    assert (losses[1].first_offset, losses[1].last_offset, losses[1].count) == (60, 69, 10)


def test_a_high_watermark_that_went_back_has_the_cause_of_its_election(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.regress(1000, 0, epochs=(0, 2), at_s=(9, 22))
    story.predict("")
    verdict = story.judge()
    (regression,) = verdict.regressions
    assert (verdict.outcome, regression.cause) == ("as-predicted", "last-replica-standing")
    assert regression.election is not None
    assert regression.election.leader_epoch == 2


def test_a_high_watermark_that_lags_under_a_leader_that_held_the_record_is_blamed_on_no_election(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.state(10, leader=2, isr=[2, 3])
    story.log(2, (0, 0, 999), (1, 1000, 1200))
    story.regress(1000, 999, epochs=(0, 1), at_s=(9, 11))
    verdict = story.judge()
    assert verdict.regressions == []
    assert "held the record, so no election explains the lower HW" in " ".join(verdict.why)


def test_a_high_watermark_that_went_back_without_a_cause_leaves_the_run_inconclusive_whatever_was_predicted(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.hw(9, 1, 0, 1166)
    story.state(10, leader=2, isr=[2, 3])
    story.hw(12.5, 2, 1, 700)
    for broker in (2, 3):
        story.log(broker, (0, 0, 1165), (1, 1166, 1200))
    story.predict("")
    assert story.judge().outcome == "as-predicted"
    story.regress(1166, 700, epochs=(0, 1), at_s=(9, 12.5))
    verdict = story.judge()
    assert verdict.outcome == "inconclusive"
    assert verdict.why[0].startswith("no-hw-regression-unless-allowed (KIP-966) is unknown: the leaders up to epoch 1")


def test_a_high_watermark_that_went_back_under_one_epoch_is_unexplained(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.regress(1000, 900, epochs=(0, 0), at_s=(9, 10))
    verdict = story.judge()
    assert verdict.regressions[0].cause == "unexplained"
    assert verdict.outcome == "contradicted"


def test_a_regression_whose_election_is_not_in_the_timeline_is_left_open(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.regress(1000, 900, epochs=(0, 3), at_s=(9, 10))
    verdict = story.judge()
    assert verdict.regressions == []
    assert by_name(verdict)["no-hw-regression-unless-allowed"] == "unknown"


def test_a_loss_without_any_election_is_unexplained_unless_the_metadata_log_is_torn(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.lose(0, 9, acked_s=5)
    assert cause_and_leader(story.judge()) == ("unexplained", None, None)
    damage = Damage(position=100, size=7, kind="torn", detail="cut short", tail=True)
    log = ControllerLog(
        controller=100, start_offset=0, end_offset=10, last_epoch=1, agreed_end_offset=10, damage=damage
    )
    save(
        RecordFolder(tmp_path),
        "timeline",
        TimelineReport(controller=100, how="the only log", end_offset=10, logs=(log,), missing=()),
    )
    verdict = story.judge()
    assert verdict.losses == []
    assert verdict.outcome == "inconclusive"
