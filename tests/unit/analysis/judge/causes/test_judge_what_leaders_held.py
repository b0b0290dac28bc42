"""What leaders held as consumers, HWs and later logs show it, and elections that the metadata log may lack."""

from __future__ import annotations

from pathlib import Path

import pytest
from coordinator_stories import OFFSETS, CoordinatorStory
from four_brokers import four_brokers
from judge_records import ELR_OFF, Story, by_name, only_loss

from analysis.evidence.report import ControllerLog, TimelineReport, save
from ebbtide.logs.scan import Damage
from ebbtide.record.folder import RecordFolder


@pytest.mark.parametrize("kind", ["at its start", "in its middle"])
def test_an_election_may_hide_in_a_gap_of_the_metadata_log(tmp_path: Path, kind: str) -> None:
    story = Story(tmp_path)
    if kind == "in its middle":
        story.state(1)
    story._offset = 1000
    story.state(20, leader=3, leader_epoch=5, partition_epoch=9)
    story.lose(0, 99, acked_s=6)
    start, skipped = (900, {}) if kind == "at its start" else (0, {"missing offset": 900})
    log = ControllerLog(controller=100, start_offset=start, end_offset=1999, last_epoch=1, agreed_end_offset=1999)
    report = TimelineReport(controller=100, how="x", end_offset=1999, logs=(log,), missing=(), skipped=skipped)
    save(RecordFolder(tmp_path), "timeline", report)
    story.predict("")
    verdict = story.judge()
    assert (verdict.losses, by_name(verdict)["no-committed-loss-unless-allowed"]) == ([], "unknown")


@pytest.mark.parametrize(("at_s", "is_known"), [(30, True), (8, False)], ids=["after it", "before it"])
def test_a_gap_hides_nothing_of_an_election_that_surely_lost_the_record_unless_it_is_before_it(
    tmp_path: Path, at_s: float, is_known: bool
) -> None:
    story = Story(tmp_path)
    story.state(1)
    for time_s in sorted((at_s, 10)):
        if time_s == 10:
            story.state(10, leader=2)
        else:
            before = story.tables["partitions"][-1]["partition_epoch"]
            story.state(time_s, isr=[2, 3], partition_epoch=before + 8)
    story.log(2, (0, 0, 49), (1, 50, 99))
    story.lose(60, 70, acked_s=5)
    log = ControllerLog(controller=100, start_offset=0, end_offset=1999, last_epoch=1, agreed_end_offset=1999)
    skipped = {"missing offset": 7}
    report = TimelineReport(controller=100, how="x", end_offset=1999, logs=(log,), missing=(), skipped=skipped)
    save(RecordFolder(tmp_path), "timeline", report)
    story.predict("")
    assert [one.cause for one in story.judge().losses] == (["unexplained"] if is_known else [])


@pytest.mark.parametrize(("epoch", "is_known"), [(4, False), (1, True)], ids=["missing", "known to lack the record"])
def test_an_election_may_be_missing_at_the_damaged_end_of_the_metadata_log(
    tmp_path: Path, epoch: int, is_known: bool
) -> None:
    story = four_brokers(tmp_path, unclean=True)
    story.state(1)
    story.state(10, leader=2)
    story.log(2, (0, 0, 49), (epoch, 50, 99))
    story.lose(60, 70, acked_s=5)
    assert only_loss(story.judge()).cause == "unexplained"
    damage = Damage(position=100, size=7, kind="torn", detail="cut short", tail=True)
    log = ControllerLog(
        controller=100, start_offset=0, end_offset=999, last_epoch=1, agreed_end_offset=999, damage=damage
    )
    save(
        RecordFolder(tmp_path),
        "timeline",
        TimelineReport(controller=100, how="x", end_offset=999, logs=(log,), missing=()),
    )
    verdict = story.judge()
    assert by_name(verdict)["no-committed-loss-unless-allowed"] == ("violated" if is_known else "unknown")


def test_an_earlier_election_may_have_lost_a_commit_whose_place_is_not_known(tmp_path: Path) -> None:
    """The log of the first successor ends at 25, that of the second at 10; the commit was at 20 or above."""
    story = CoordinatorStory(tmp_path, features=ELR_OFF)
    story.broker(0, 2)
    story.coordinate(1)
    story.mark(4, 1, 0, 20)
    story.coordinate(8, leader=2, isr=[2])
    story.mark(9, 2, 1, 25)
    story.mark(10, 2, 1, 25)
    story.coordinator_loses_power(12, 2, end=10)
    story.coordinate(20, leader=-1)
    story.broker(24, 2)
    story.coordinate(25, leader=2)
    story.log(2, (0, 0, 9), (3, 10, 12))
    story.tables["replicas"] = [row | {"topic": OFFSETS} for row in story.tables["replicas"]]
    story.lose_commit(acked_s=5, asked_s=28, epoch=3, broker=2)
    verdict = story.judge()
    assert verdict.commits == []
    assert "where in __consumer_offsets-0 the commit was is not known" in " | ".join(verdict.why)
