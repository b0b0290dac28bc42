"""Records that were sent after every election: which of them can have lost the records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from coordinator_stories import OFFSETS, CoordinatorStory
from four_brokers import four_brokers
from judge_records import ELR_OFF, ELR_ON, Story, by_name, cause_and_leader, ns, only_loss, value_of, whole_log

from analysis.evidence.report import ControllerLog, TimelineReport, save
from ebbtide.logs.scan import Damage
from ebbtide.record.files import RecordFolder


def led_twice(record: Path, *, acks: int, min_isr: int = 1) -> Story:
    """Leader 1 is cut off, and broker 2 leads uncleanly at 19 s, as the config allows.

    Records are sent at 40 s, when the election is long over, and none is in the end in any log.
    """
    story = Story(record, min_isr=min_isr)
    story.config(0, "topic:t", "unclean.leader.election.enable", "true")
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.state(1)
    story.state(8, isr=[1])
    story.step(9, "partition", 1, 100, cuts=["1>100", "100>1"])
    story.state(18, leader=-1)
    story.state(19, leader=2, isr=[2], leader_recovery_state=1)
    story.state(20, isr=[2, 3], leader_recovery_state=0)
    story.lose(500, 519, sent_s=40, acked_s=42, acks=acks, committed=acks == -1)
    for broker in (1, 2, 3):
        story.log(broker, (0, 0, 99), (2, 100, 499))
    whole_log(story)
    return story


@pytest.mark.parametrize(("acks", "cause"), [(-1, "unclean-election"), (1, "uncommitted-at-failover")])
def test_a_deposed_leader_may_not_have_learnt_of_an_election_long_before_the_send(
    tmp_path: Path, acks: int, cause: str
) -> None:
    assert cause_and_leader(led_twice(tmp_path, acks=acks).judge()) == (cause, 2, 2)


@pytest.mark.parametrize(("acks", "cause"), [(-1, "unexplained"), (1, "uncommitted-at-failover")])
def test_a_deposed_leader_alone_acks_nothing_with_acks_all_if_min_isr_is_2(
    tmp_path: Path, acks: int, cause: str
) -> None:
    story = led_twice(tmp_path, acks=acks, min_isr=2)
    assert only_loss(story.judge()).cause == cause


def cut_off_leader(record: Path) -> Story:
    """Broker 1 is its whole ISR and cut off from the controllers. It goes on while broker 2 leads uncleanly."""
    story = Story(record, min_isr=1)
    story.config(0, "topic:t", "unclean.leader.election.enable", "true")
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.state(1)
    story.state(5, isr=[1])
    story.step(6, "partition", 1, 100, cuts=["1>100", "100>1"])
    story.state(15, leader=2, isr=[2], leader_recovery_state=1)
    story.state(15.2, leader_recovery_state=0)
    story.state(27, isr=[1, 2, 3])
    story.state(40, leader=1)
    for broker in (1, 2, 3):
        story.log(broker, (0, 0, 199), (1, 200, 399), (2, 400, 450))
    story.lose(500, 519, sent_s=23.9, acked_s=24, epoch=0)
    return story


def test_a_deposed_leader_may_have_committed_by_itself_what_the_election_before_lost(tmp_path: Path) -> None:
    assert cause_and_leader(cut_off_leader(tmp_path).judge()) == ("unclean-election", 2, 1)


def test_a_cut_off_leader_that_was_killed_before_the_send_acked_nothing(tmp_path: Path) -> None:
    story = cut_off_leader(tmp_path)
    story.step(20, "kill", 1)
    story.broker(26, 1)
    assert only_loss(story.judge()).cause == "unexplained"


# Records that a leader lacked, and that a later leader may have had again.


NO_LOSS = "no-committed-loss-unless-allowed"


def returned(record: Path, *, acks: int | None = 1) -> Story:
    """100 records of leader 1 that leader 2 lacked, and leader 3 may have had; then a recovery elects leader 2.

    A consumer read them after they were back. They were acked with `acks` (None: not at all).
    """
    story = Story(record, kafka="4.3.1", features=ELR_ON)
    story.state(1)
    story.hw(6, 1, 0, 100)
    story.state(10, leader=2, isr=[2, 3])
    story.state(15, leader=3, isr=[3])
    story.state(20, isr=[1, 3])
    story.hw(24, 3, 2, 200)
    recover(story, [(0, 0, 99), (1, 100, 299)])
    read(story, at_s=25)
    if acks is None:
        story.vanish_range(100, 199, epoch=0, read_s=25)
    else:
        story.lose(100, 199, acked_s=5, acks=acks, epoch=0)
    return story


def recover(story: Story, log: Sequence[tuple[int, int, int]]) -> None:
    """A recovery elects leader 2, whose log is `log` with further records."""
    story.state(30, leader=-1, isr=[])
    elected = story.state(40, leader=2, isr=[2], leader_recovery_state=1)
    story.state(45, isr=[1, 2, 3], leader_recovery_state=0)
    epoch = story.tables["partitions"][-1]["leader_epoch"]
    for broker in (1, 2, 3):
        story.log(broker, *log, (epoch, log[-1][2] + 1, log[-1][2] + 10))
    story.step(35, "recover", record={"metadata_offset": elected})
    assert story.steps is not None
    parameters = {"partition": "t-0", "strategy": "balanced"}
    story.steps[-1] = msgspec.structs.replace(story.steps[-1], parameters=parameters)


def read(story: Story, *, at_s: float) -> None:
    """A consumer returns the records of leader 1."""
    story.tables["polls"] += [
        {"topic": "t", "partition": 0, "offset": offset, "value": value_of(offset, 0), "consumer": 1}
        | {"session": 0, "prev_offset": offset - 1, "leader_epoch": 0, "isolation": "read_uncommitted"}
        | {"polled_ns": ns(at_s)}
        for offset in range(100, 200)
    ]


def test_the_election_that_lost_records_after_their_return_is_guilty(tmp_path: Path) -> None:
    verdict = returned(tmp_path).judge()
    assert by_name(verdict)[NO_LOSS] == "holds"
    assert cause_and_leader(verdict) == ("unclean-recovery", 2, 4)


def test_it_also_lost_records_that_were_not_acked_and_only_read(tmp_path: Path) -> None:
    verdict = returned(tmp_path, acks=None).judge()
    assert by_name(verdict)[NO_LOSS] == "holds"
    assert "t-0, 100 records that were read and are gone, unclean-recovery" in " | ".join(verdict.why)


# What leaders held as consumers, HWs and later logs show it, and elections that the metadata log may lack.


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
