"""Records whose ack came late, and records that were sent after every election: which election can have lost them."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_records import Story, cause_and_leader, ns, only_loss, value_of, whole_log


def follower_that_lost_power(record: Path, *, acked_s: float, sent_s: float = 11.8) -> Story:
    """The ISR is 1 and 2. Broker 2 loses power at 12 s, is elected in its session, and leads again alone."""
    story = Story(record)
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.state(1, isr=[1, 2])
    story.power_loss(12, 2, end=60)
    story.state(14, leader=2, isr=[2])
    story.state(21, leader=-1)
    story.broker(25, 2)
    story.state(26, leader=2)
    story.lose(60, 99, acked_s=acked_s, sent_s=sent_s)
    story.log(2, (0, 0, 59), (3, 60, 200))
    return story


@pytest.mark.parametrize("acked_s", [11.9, 12.8], ids=["noted before the power loss", "noted after it"])
def test_when_the_client_notes_the_ack_does_not_change_the_cause(tmp_path: Path, acked_s: float) -> None:
    story = follower_that_lost_power(tmp_path, acked_s=acked_s)
    assert cause_and_leader(story.judge()) == ("last-replica-standing", 2, 3)


def test_a_disk_that_never_had_what_was_acked_late_explains_nothing(tmp_path: Path) -> None:
    story = follower_that_lost_power(tmp_path, acked_s=12.8)
    assert story.steps is not None
    story.steps[-1].proof["logs"]["t-0"]["leo_before"] = 60
    assert only_loss(story.judge()).cause == "unexplained"


def test_a_power_loss_that_was_over_when_the_record_was_sent_explains_nothing(tmp_path: Path) -> None:
    story = follower_that_lost_power(tmp_path, acked_s=12.9, sent_s=12.5)
    assert only_loss(story.judge()).cause == "unexplained"


@pytest.mark.parametrize(
    ("kept_epoch", "lost_epoch", "cause"),
    [(2, 0, "last-replica-standing"), (0, 2, "unexplained")],
    ids=["which the log shows to be older", "and not another one"],
)
def test_a_broker_may_lose_the_record_that_it_acked_before_it_lost_power(
    tmp_path: Path, kept_epoch: int, lost_epoch: int, cause: str
) -> None:
    """The client is cut off when broker 1 answers, and gets the answer when broker 1 leads again."""
    story = Story(tmp_path)
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.state(1, isr=[1])
    story.power_loss(12, 1, end=60)
    story.state(21, leader=-1)
    story.broker(22, 1)
    story.state(23, leader=1)
    story.state(26, isr=[1, 2, 3])
    story.lose(60, 79, acked_s=25, sent_s=11.9, epoch=lost_epoch)
    story.log(1, (0, 0, 59), (kept_epoch, 60, 200))
    assert only_loss(story.judge()).cause == cause


def led_twice(record: Path, *, acks: int, deposed: str, min_isr: int = 1) -> Story:
    """Broker 2 leads uncleanly at 19 s, as the config allows; what happens to leader 1 is `deposed`.

    Records are sent at 40 s, when the election is long over, and none is in the end in any log.
    """
    story = Story(record, min_isr=min_isr)
    story.config(0, "topic:t", "unclean.leader.election.enable", "true")
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.state(1)
    story.state(8, isr=[1])
    if deposed == "killed":
        story.step(9, "kill", 1)
    elif deposed == "cut off":
        story.step(9, "partition", 1, 100, cuts=["1>100", "100>1"])
    story.state(18, leader=-1)
    story.state(19, leader=2, isr=[2], leader_recovery_state=1)
    story.state(20, isr=[2, 3], leader_recovery_state=0)
    if deposed == "joined the ISR":
        story.state(23, isr=[1, 2, 3])
    story.lose(500, 519, sent_s=40, acked_s=42, acks=acks, committed=acks == -1)
    for broker in (1, 2, 3):
        story.log(broker, (0, 0, 99), (2, 100, 499))
    whole_log(story)
    return story


@pytest.mark.parametrize("acks", [-1, 1])
@pytest.mark.parametrize("deposed", ["killed", "joined the ISR"])
def test_an_election_long_before_the_send_lost_nothing(tmp_path: Path, acks: int, deposed: str) -> None:
    assert only_loss(led_twice(tmp_path, acks=acks, deposed=deposed).judge()).cause == "unexplained"


@pytest.mark.parametrize(("acks", "cause"), [(-1, "unclean-election"), (1, "uncommitted-at-failover")])
def test_unless_a_deposed_leader_may_not_have_learnt_of_it(tmp_path: Path, acks: int, cause: str) -> None:
    assert cause_and_leader(led_twice(tmp_path, acks=acks, deposed="cut off").judge()) == (cause, 2, 2)


@pytest.mark.parametrize(("acks", "cause"), [(-1, "unexplained"), (1, "uncommitted-at-failover")])
def test_a_deposed_leader_alone_acks_nothing_with_acks_all_if_min_isr_is_2(
    tmp_path: Path, acks: int, cause: str
) -> None:
    story = led_twice(tmp_path, acks=acks, deposed="cut off", min_isr=2)
    assert only_loss(story.judge()).cause == cause


def test_what_was_sent_before_the_election_may_be_lost_by_it(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.state(2, leader=2)
    story.broker(3, 1)
    story.lose(500, 519, sent_s=1.5, acked_s=42, acks=1, committed=False)
    for broker in (1, 2, 3):
        story.log(broker, (0, 0, 9), (1, 10, 499))
    assert cause_and_leader(story.judge()) == ("uncommitted-at-failover", 2, 1)


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


@pytest.mark.parametrize(
    ("epoch", "value", "cause"),
    [(0, 0, "unclean-election"), (1, 0, "unexplained"), (1, 5000, "unclean-election")],
    ids=["the old leader's", "the new leader's", "another record"],
)
def test_whose_record_it_was_is_known_from_a_consumer(tmp_path: Path, epoch: int, value: int, cause: str) -> None:
    story = cut_off_leader(tmp_path)
    story.tables["polls"] += [
        {"topic": "t", "partition": 0, "offset": offset, "value": value + value_of(offset, 0), "consumer": 1}
        | {"session": 0, "prev_offset": offset - 1, "leader_epoch": epoch, "isolation": "read_uncommitted"}
        | {"polled_ns": ns(25)}
        for offset in range(500, 520)
    ]
    assert only_loss(story.judge()).cause == cause


def test_a_cut_off_leader_that_was_killed_before_the_send_acked_nothing(tmp_path: Path) -> None:
    story = cut_off_leader(tmp_path)
    story.step(20, "kill", 1)
    story.broker(26, 1)
    assert only_loss(story.judge()).cause == "unexplained"
