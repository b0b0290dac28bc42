"""Clauses where the metadata log lacks a record, ends early or is damaged: what it may lack accuses nobody."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_records import ELR_ON, Story, by_name, whole_log

from analysis.evidence.report import ControllerLog, TimelineReport, save
from ebbtide.logs.scan import Damage
from ebbtide.record.files import RecordFolder

DAMAGE = Damage(position=1000, size=500, kind="checksum", detail="x", tail=False)


def story_of(
    record: Path, *, how: str = "whole", kafka: str = "3.9.1", features: dict[str, int] | None = None
) -> Story:
    """A story whose metadata log is whole, damaged at its end, or lacks a record in its middle."""
    story = Story(record, kafka=kafka, **({} if features is None else {"features": features}))
    for broker in (1, 2, 3):
        story.broker(0, broker)
        story.broker(0.5, broker, "unfenced")
    whole_log(story)
    if how != "whole":
        damage, skipped = (DAMAGE, {}) if how == "damaged" else (None, {"a record of an unknown version": 1})
        log = ControllerLog(
            controller=100, start_offset=0, end_offset=999, last_epoch=1, agreed_end_offset=999, damage=damage
        )
        report = TimelineReport(controller=100, how="x", end_offset=999, logs=(log,), missing=(), skipped=skipped)
        save(RecordFolder(record), "timeline", report)
    story.predict("")
    return story


def rising_hw(story: Story, *, until_s: float) -> None:
    for at_s, hw in ((6, 10), (7, 10), (9, 12), (10, 13), (until_s, 14)):
        story.hw(at_s, 1, 0, hw)


@pytest.mark.parametrize(
    ("how", "status", "found"),
    [
        ("whole", "complete", "violated"),
        ("whole", "interrupted", "not-exercised"),
        ("damaged", "complete", "not-exercised"),
        ("lacks the record", "complete", "not-exercised"),
    ],
)
def test_a_rising_hw_is_no_violation_if_the_record_that_grew_the_isr_may_be_missing(
    tmp_path: Path, how: str, status: str, found: str
) -> None:
    story = story_of(tmp_path, how=how)
    story.change(status=status)
    story.state(1)
    story.state(5, isr=[1])
    rising_hw(story, until_s=11)
    if how == "lacks the record":
        story.state(30, isr=[1, 2, 3], partition_epoch=3)
    assert by_name(story.judge())["hw-frozen-below-min-isr"] == found


def test_what_is_below_min_isr_counts_up_to_the_newest_record_of_a_log_that_may_go_on(tmp_path: Path) -> None:
    story = story_of(tmp_path, how="damaged")
    story.state(1)
    story.state(5, isr=[1])
    rising_hw(story, until_s=11)
    story.broker(20, 3, "fenced")
    assert by_name(story.judge())["hw-frozen-below-min-isr"] == "violated"


@pytest.mark.parametrize(("how", "found"), [("whole", "violated"), ("lacks a record", "unknown")])
def test_a_leader_may_have_joined_the_isr_with_a_record_that_is_missing(tmp_path: Path, how: str, found: str) -> None:
    story = story_of(tmp_path, how=how)
    story.state(1)
    story.state(5, isr=[1])
    story.step(10, "kill", 1)
    story.state(19, leader=2, isr=[2], partition_epoch=2 if how == "whole" else 3)
    assert by_name(story.judge())["election-outside-isr-and-elr-shows-recovering"] == found


@pytest.mark.parametrize(
    ("how", "next_epoch", "found"),
    [
        ("whole", 1, "violated"),
        ("whole", None, "violated"),
        ("lacks a record", 2, "unknown"),
        ("damaged", None, "unknown"),
        ("damaged", 1, "violated"),
    ],
)
def test_a_broker_may_have_left_the_isr_with_a_record_that_is_missing(
    tmp_path: Path, how: str, next_epoch: int | None, found: str
) -> None:
    story = story_of(tmp_path, how=how, kafka="4.3.1", features=ELR_ON)
    story.state(1)
    story.step(10, "kill", 2)
    story.broker(20, 2)
    if next_epoch is not None:
        story.state(25, isr=[1, 2, 3], leader_recovery_state=0, partition_epoch=next_epoch, elr=[])
    assert by_name(story.judge())["unclean-broker-leaves-isr-and-elr"] == found


@pytest.mark.parametrize(("how", "outcome"), [("whole", "contradicted"), ("damaged", "inconclusive")])
def test_an_election_from_the_elr_may_be_missing_in_a_damaged_log(tmp_path: Path, how: str, outcome: str) -> None:
    story = story_of(tmp_path, how=how, kafka="4.3.1", features=ELR_ON)
    story.state(1)
    story.step(2, "wait")
    story.predict("elected_from_elr = true", steps=1)
    verdict = story.judge()
    assert verdict.outcome == outcome, verdict.why
