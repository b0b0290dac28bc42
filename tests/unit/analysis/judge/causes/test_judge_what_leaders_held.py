"""What leaders held as consumers, HWs and later logs show it, and elections that the metadata log may lack."""

from __future__ import annotations

from pathlib import Path

import pytest
from coordinator_stories import OFFSETS, CoordinatorStory
from four_brokers import four_brokers
from judge_records import ELR_OFF, Story, by_name, cause_and_leader, ns, only_loss, value_of

from analysis.evidence.report import ControllerLog, TimelineReport, save
from ebbtide.logs.scan import Damage
from ebbtide.record.folder import RecordFolder

# Elections that may be missing


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


# What leaders held


@pytest.mark.parametrize("unclean", [True, False])
def test_a_first_hw_that_lags_blames_no_election_before_the_higher_one(tmp_path: Path, unclean: bool) -> None:
    story = four_brokers(tmp_path, unclean=unclean)
    story.state(1, isr=[1] if unclean else [1, 2, 3])
    recovering = {"isr": [2], "leader_recovery_state": 1} if unclean else {}
    story.state(5, leader=2, **recovering)
    story.state(6, isr=[1, 2, 3], leader_recovery_state=0)
    story.hw(9, 2, 1, 1000)
    story.state(10, leader=3, isr=[1, 3])
    story.hw(11, 3, 2, 999)
    story.hw(12, 3, 2, 1000)
    story.log(3, (0, 0, 499), (1, 500, 999), (2, 1000, 1010))
    story.regress(1000, 999, epochs=(1, 2), at_s=(9, 11))
    verdict = story.judge()
    assert (verdict.regressions, by_name(verdict)["no-hw-regression-unless-allowed"]) == ([], "unknown")


def test_an_older_log_that_comes_back_holds_other_records_at_the_same_offsets(tmp_path: Path) -> None:
    story = four_brokers(tmp_path, unclean=True, min_isr=1)
    story.state(1)
    story.state(5, isr=[1])
    story.state(11, leader=3, isr=[3], leader_recovery_state=1)
    story.state(11.5, leader_recovery_state=0)
    story.state(18, leader=-1)
    story.state(21, leader=1, isr=[1], leader_recovery_state=1)
    story.state(22, isr=[1, 2, 3], leader_recovery_state=0)
    story.log(1, (0, 0, 299), (3, 300, 310))
    story.lose(200, 249, acked_s=14, epoch=1)
    assert cause_and_leader(story.judge()) == ("unclean-election", 1, 3)


def test_what_a_consumer_read_shows_where_an_epoch_began_that_left_no_record(tmp_path: Path) -> None:
    """Broker 3 leads cleanly and writes over committed records; then it loses its log, as the last replica standing."""
    story = four_brokers(tmp_path, unclean=False)
    story.state(1)
    story.state(10, leader=3, isr=[2, 3])
    for epoch, read_s in ((0, 5.5), (1, 15.5)):
        story.tables["polls"] += [
            {
                "topic": "t",
                "partition": 0,
                "offset": offset,
                "value": value_of(offset, epoch),
                "consumer": 1,
                "session": 1,
            }
            | {
                "prev_offset": offset - 1,
                "leader_epoch": epoch,
                "isolation": "read_uncommitted",
                "polled_ns": ns(read_s),
            }
            for offset in range(10, 13)
        ]
    story.state(19, isr=[3])
    story.power_loss(22, 3, end=2)
    story.state(26, leader=-1)
    story.broker(30, 3)
    story.state(31, leader=3, isr=[3])
    story.log(3, (0, 0, 1), (3, 2, 5))
    story.lose(10, 12, acked_s=5, epoch=0)
    assert cause_and_leader(story.judge()) == ("unexplained", 3, 1)


def test_a_hw_that_was_served_after_a_follower_lost_its_log_covers_what_its_disk_had(tmp_path: Path) -> None:
    """Broker 3 loses power while leader 1 lives on; then it is the last replica standing, and leads again."""
    story = four_brokers(tmp_path, unclean=False)
    story.state(1, isr=[1, 3])
    story.power_loss(11, 3, end=10)
    story.state(14, leader=3, isr=[3])
    story.state(20, leader=-1)
    story.broker(25, 3)
    story.state(26, leader=3)
    story.hw(27, 3, 3, 10)
    story.hw(28, 3, 3, 10)
    story.log(3, (0, 0, 9), (3, 10, 20))
    story.regress(1000, 10, epochs=(0, 3), at_s=(13, 27))
    assert [one.cause for one in story.judge().regressions] == ["last-replica-standing"]


def test_a_disk_that_lost_its_log_before_the_offset_was_written_explains_no_lower_hw(tmp_path: Path) -> None:
    story = four_brokers(tmp_path, unclean=False)
    story.state(1, isr=[1, 3])
    story.step(2, "power-loss", 3, lost_bytes=4096, logs={"t-0": {"leo_before": 12, "leo_after": 10}})
    story.broker(4, 3)
    story.hw(20, 1, 0, 500)
    story.state(38.5, isr=[3])
    story.state(41, leader=3)
    story.hw(42, 3, 1, 400)
    story.hw(43, 3, 1, 400)
    story.log(3, (0, 0, 399), (1, 400, 420))
    story.regress(1000, 400, epochs=(0, 1), at_s=(38, 42))
    assert [one.cause for one in story.judge().regressions] == ["unexplained"]


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
