"""Why the protocol let a leader lead that did not hold a committed record: the causes, and their order."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_records import BEFORE_KIP_903, ELR_ON, Story, by_name, cause_and_leader, last_replica_standing, only_loss
from stale_joins import stale_join


def test_the_last_isr_member_that_lost_its_log_and_led_again_is_last_replica_standing(tmp_path: Path) -> None:
    verdict = last_replica_standing(tmp_path).judge()
    loss = only_loss(verdict)
    assert cause_and_leader(verdict) == ("last-replica-standing", 1, 2)
    assert (loss.count, loss.first_offset, loss.last_offset, loss.committed) == (1000, 0, 999, True)
    assert by_name(verdict)["no-committed-loss-unless-allowed"] == "holds"


def test_the_same_with_elr_is_a_violation(tmp_path: Path) -> None:
    verdict = last_replica_standing(tmp_path, kafka="4.1.0", features=ELR_ON).judge()
    assert cause_and_leader(verdict) == ("unexplained", 1, 2)
    assert by_name(verdict)["no-committed-loss-unless-allowed"] == "violated"
    assert verdict.outcome == "contradicted"


def test_no_steps_file_leaves_the_cause_open_instead_of_blaming_kafka(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.steps = None
    verdict = story.judge()
    assert verdict.losses == []
    assert verdict.outcome == "inconclusive"
    assert by_name(verdict)["no-committed-loss-unless-allowed"] == "unknown"


def test_no_timeline_leaves_the_cause_open_instead_of_blaming_kafka(tmp_path: Path) -> None:
    verdict = last_replica_standing(tmp_path).judge(missing=("partitions",))
    assert verdict.losses == []
    assert [one.count for one in verdict.anomalies if one.kind == "lost"] == [1000]
    assert verdict.outcome == "inconclusive"
    assert any("partitions.parquet" in sentence for sentence in verdict.why)


def test_acks_1_lost_at_a_failover_is_uncommitted_and_names_the_election(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.step(9, "kill", 1)
    story.state(12, leader=2, isr=[2, 3])
    story.log(2, (0, 0, 49), (1, 50, 60))
    story.lose(50, 70, acked_s=8, acks=1, committed=False)
    verdict = story.judge()
    assert cause_and_leader(verdict) == ("uncommitted-at-failover", 2, 1)
    assert by_name(verdict)["no-committed-loss-unless-allowed"] == "holds"


def unclean_story(record: Path, *, recovering: int) -> Story:
    story = Story(record)
    story.config(0, "topic:t", "unclean.leader.election.enable", "true")
    story.state(1)
    story.state(7, isr=[1])
    story.power_loss(10, 1)
    story.state(13, leader=-1)
    story.state(14, leader=3, isr=[3], leader_recovery_state=recovering)
    story.state(20, isr=[1, 2, 3], leader_recovery_state=0)
    story.lose(0, 99, acked_s=8)
    return story


def test_a_leader_from_outside_the_isr_is_an_unclean_election(tmp_path: Path) -> None:
    verdict = unclean_story(tmp_path, recovering=1).judge()
    assert cause_and_leader(verdict) == ("unclean-election", 3, 2)
    assert by_name(verdict)["election-outside-isr-and-elr-shows-recovering"] == "holds"


def test_an_unclean_election_that_hides_is_still_the_cause_and_a_violation_besides(tmp_path: Path) -> None:
    verdict = unclean_story(tmp_path, recovering=0).judge()
    assert cause_and_leader(verdict) == ("unclean-election", 3, 2)
    assert by_name(verdict)["election-outside-isr-and-elr-shows-recovering"] == "violated"
    assert verdict.outcome == "contradicted"


def test_replicas_that_lost_different_suffixes_have_all_lost_what_is_above(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    assert story.steps is not None
    story.steps[1:] = []
    for broker, end in ((1, 80), (2, 100), (3, 120)):
        story.power_loss(12, broker, end=end)
    story.keep_all()
    story.lose(80, 999, acked_s=5)
    found = {loss.cause: (loss.first_offset, loss.last_offset) for loss in story.judge().losses}
    assert found == {"last-replica-standing": (80, 119), "beyond-tolerance": (120, 999)}


@pytest.mark.parametrize(("disks", "cause"), [((1,), "unexplained"), ((1, 2), "last-known-leader")])
def test_the_last_known_leader_may_lack_only_what_min_isr_disks_lost(
    tmp_path: Path, disks: tuple[int, ...], cause: str
) -> None:
    story = Story(tmp_path, kafka="4.1.0", features=ELR_ON)
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.state(1)
    story.state(6, isr=[1], elr=[2])
    for broker in disks:
        story.power_loss(10, broker)
    story.state(13, leader=-1, isr=[], elr=[1, 2], last_known_elr=[1])
    story.broker(20, 1)
    story.state(20, elr=[])
    story.state(21, leader=1, isr=[1], last_known_elr=[], leader_recovery_state=1)
    story.lose(0, 99, acked_s=5)
    verdict = story.judge()
    assert cause_and_leader(verdict) == (cause, 1, 2)
    assert verdict.coverage["elections-of-last-known-leader"] == 1


@pytest.mark.parametrize("lost_later", [False, True])
def test_no_join_is_stale_by_a_disk_that_was_lost_before_the_leaders_epoch_or_after_the_election(
    tmp_path: Path, *, lost_later: bool
) -> None:
    story = stale_join(tmp_path, BEFORE_KIP_903, in_new_epoch=True)
    if lost_later:
        story.power_loss(30, 2, end=1000)
    assert cause_and_leader(story.judge())[0] == "unexplained"


def test_a_hw_that_was_served_until_after_the_join_went_back_by_the_join_all_the_same(tmp_path: Path) -> None:
    story = stale_join(tmp_path, BEFORE_KIP_903)
    story.regress(100, 0, epochs=(0, 1), at_s=(14.5, 19))
    (regression,) = story.judge().regressions
    assert regression.cause == "stale-isr-join"


def test_kip_903_follows_the_metadata_version_and_not_the_release(tmp_path: Path) -> None:
    assert cause_and_leader(stale_join(tmp_path, BEFORE_KIP_903, kafka="3.9.1").judge())[0] == "stale-isr-join"


def test_the_same_join_under_kip_903_is_a_violation_of_it(tmp_path: Path) -> None:
    story = stale_join(tmp_path, {"metadata.version": 11}, kafka="3.5.2")
    story.log(2, (1, 0, 9))
    verdict = story.judge()
    assert cause_and_leader(verdict)[0] == "unexplained"
    assert by_name(verdict)["no-isr-join-with-an-old-broker-epoch"] == "violated"
