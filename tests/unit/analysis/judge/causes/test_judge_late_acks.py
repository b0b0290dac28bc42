"""Records that were sent after every election: which of them can have lost the records."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_records import Story, cause_and_leader, only_loss, whole_log


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
