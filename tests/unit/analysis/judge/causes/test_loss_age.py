"""How old the oldest lost record was when it was lost, and by which event."""

from __future__ import annotations

from pathlib import Path

from judge_records import Story, last_replica_standing, only_loss
from stale_joins import stale_join


def _age(story: Story) -> tuple[float | None, str | None]:
    loss = only_loss(story.judge())
    return loss.oldest_s, loss.lost_by


def test_a_power_loss_of_the_last_replica_lost_the_records_not_the_later_election(tmp_path: Path) -> None:
    # Acked at 5 s, power lost at 12 s, elected at 21 s.
    assert _age(last_replica_standing(tmp_path)) == (7, "disk")


def test_a_record_of_an_unclean_election_is_lost_by_the_election(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.config(0, "topic:t", "unclean.leader.election.enable", "true")
    story.state(1)
    story.state(10, isr=[1])
    story.state(15, leader=-1)
    story.state(21, leader=2, isr=[2], leader_recovery_state=1)
    story.lose(0, 999, acked_s=12)
    assert only_loss(story.judge()).cause == "unclean-election"
    assert _age(story) == (9, "election")


def test_a_disk_that_was_replaced_before_the_election_of_its_broker_lost_no_record_yet(tmp_path: Path) -> None:
    # Broker 1 still had the records until broker 2 led, at 18 s.
    assert _age(stale_join(tmp_path, {"metadata.version": 8})) == (13, "election")


def test_of_two_power_losses_only_one_took_the_record(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    # Power was lost again, when the log was empty already.
    story.step(13, "power-loss", 1, lost_bytes=1, logs={"t-0": {"leo_before": 0, "leo_after": 0}})
    assert _age(story) == (7, "disk")


def test_without_a_cause_no_event_is_known(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.steps = None
    verdict = story.judge()
    assert [(one.oldest_s, one.lost_by) for one in verdict.losses] == []
