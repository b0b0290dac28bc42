"""Why the protocol let a leader lead that did not hold a committed record: the causes, and their order."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_records import (
    BEFORE_KIP_903,
    ELR_ON,
    Story,
    by_name,
    cause_and_leader,
    last_replica_standing,
    only_loss,
    stale_join,
)


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


def test_without_a_power_loss_the_last_isr_member_had_no_reason_to_lose_anything(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    assert story.steps is not None
    story.steps[1:] = []
    story.step(12, "kill", 1)
    assert cause_and_leader(story.judge())[0] == "unexplained"


def test_a_power_loss_that_left_the_records_on_disk_explains_nothing(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    assert story.steps is not None
    story.steps[1:] = []
    story.power_loss(12, 1, end=1000)
    assert cause_and_leader(story.judge())[0] == "unexplained"


def test_a_power_loss_without_a_measured_log_end_still_explains(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    assert story.steps is not None
    story.steps[1:] = []
    story.power_loss(12, 1, end=None)
    assert cause_and_leader(story.judge()) == ("last-replica-standing", 1, 2)


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


def test_an_uncommitted_loss_stays_uncommitted_through_an_unclean_election(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.state(10, leader=-1, isr=[1])
    story.state(12, leader=3, isr=[3], leader_recovery_state=1)
    story.lose(50, 70, acked_s=8, acks=1, committed=False)
    assert cause_and_leader(story.judge()) == ("uncommitted-at-failover", 3, 2)


def test_committed_acks_1_is_judged_like_any_committed_record(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.lost.clear()
    story.lose(0, 9, acked_s=5, acks=1, committed=True)
    assert cause_and_leader(story.judge()) == ("last-replica-standing", 1, 2)


def unclean_story(record: Path, *, recovering: int) -> Story:
    story = Story(record)
    story.config(0, "topic:t", "unclean.leader.election.enable", "true")
    story.state(1)
    story.state(9, isr=[1])
    story.power_loss(10, 1)
    story.state(13, leader=-1)
    story.state(14, leader=3, isr=[3], leader_recovery_state=recovering)
    story.state(20, isr=[1, 2, 3], leader_recovery_state=0)
    story.lose(0, 99, acked_s=5)
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


def test_an_unclean_election_wins_over_beyond_tolerance(tmp_path: Path) -> None:
    story = unclean_story(tmp_path, recovering=1)
    story.power_loss(10, 2)
    story.power_loss(10, 3)
    assert cause_and_leader(story.judge())[0] == "unclean-election"


def test_power_lost_on_every_replica_is_beyond_tolerance(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.power_loss(12, 2)
    story.power_loss(12, 3)
    assert cause_and_leader(story.judge()) == ("beyond-tolerance", 1, 2)


def test_power_lost_on_all_but_one_replica_stays_last_replica_standing(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.power_loss(12, 2)
    assert cause_and_leader(story.judge())[0] == "last-replica-standing"


def test_replicas_that_lost_different_suffixes_all_lost_their_log(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    assert story.steps is not None
    story.steps[1:] = []
    for broker, end in ((1, 80), (2, 100), (3, 120)):
        story.power_loss(12, broker, end=end)
    story.lost.clear()
    story.lose(80, 999, acked_s=5)
    assert cause_and_leader(story.judge()) == ("beyond-tolerance", 1, 2)


def test_a_replica_that_lost_power_but_no_record_did_not_lose_its_log(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.power_loss(12, 2)
    story.power_loss(12, 3, end=1000)
    assert cause_and_leader(story.judge())[0] == "last-replica-standing"


def with_elr(record: Path) -> Story:
    """ISR [1, 2], both lose power at once; the controller still lets broker 2 lead out of the ISR."""
    story = Story(record, kafka="4.1.0", features=ELR_ON)
    story.state(1)
    story.state(5, isr=[1, 2])
    story.power_loss(10, 1)
    story.state(13, leader=2, isr=[2], elr=[1])
    story.lose(0, 99, acked_s=7)
    return story


def test_min_isr_members_that_lost_data_at_once_are_beyond_tolerance_with_elr_too(tmp_path: Path) -> None:
    story = with_elr(tmp_path)
    story.power_loss(10.2, 2)
    assert cause_and_leader(story.judge()) == ("beyond-tolerance", 2, 1)


def test_fewer_than_min_isr_are_tolerated_so_the_loss_is_unexplained(tmp_path: Path) -> None:
    story = with_elr(tmp_path)
    story.tables["partitions"][-1] |= {"leader": 1, "isr": [1], "elr": [2]}
    assert cause_and_leader(story.judge()) == ("unexplained", 1, 1)


def test_a_replica_that_got_the_record_back_before_does_not_count_as_having_lost_it(tmp_path: Path) -> None:
    story = Story(tmp_path, kafka="4.1.0", features=ELR_ON)
    story.state(1)
    story.state(5, isr=[1, 3])
    story.power_loss(6, 2)
    story.state(9, isr=[1, 2, 3])
    story.power_loss(10, 1)
    story.state(13, leader=1, isr=[1], elr=[2])
    story.lose(0, 99, acked_s=4)
    assert cause_and_leader(story.judge())[0] == "unexplained"


def test_isr_and_elr_empty_elects_the_last_known_leader(tmp_path: Path) -> None:
    story = Story(tmp_path, kafka="4.1.0", features=ELR_ON)
    story.state(1)
    story.state(8, isr=[1], elr=[2])
    story.power_loss(10, 1)
    story.power_loss(10, 2)
    story.state(13, leader=-1, isr=[], elr=[1, 2], last_known_elr=[1])
    story.state(20, elr=[])
    story.state(21, leader=1, isr=[1], last_known_elr=[], leader_recovery_state=1)
    story.lose(0, 99, acked_s=5)
    verdict = story.judge()
    assert cause_and_leader(verdict) == ("last-known-leader", 1, 2)
    assert verdict.coverage["elections-of-last-known-leader"] == 1


def test_a_join_with_an_old_broker_epoch_is_allowed_before_kip_903(tmp_path: Path) -> None:
    assert cause_and_leader(stale_join(tmp_path, BEFORE_KIP_903).judge()) == ("stale-isr-join", 2, 1)


def test_a_hw_that_was_served_until_after_the_join_went_back_by_the_join_all_the_same(tmp_path: Path) -> None:
    story = stale_join(tmp_path, BEFORE_KIP_903)
    story.regress(100, 0, epochs=(0, 1), at_s=(14.5, 19))
    (regression,) = story.judge().regressions
    assert regression.cause == "stale-isr-join"


def test_kip_903_follows_the_metadata_version_and_not_the_release(tmp_path: Path) -> None:
    assert cause_and_leader(stale_join(tmp_path, BEFORE_KIP_903, kafka="3.9.1").judge())[0] == "stale-isr-join"


def test_the_same_join_under_kip_903_is_a_violation_of_it(tmp_path: Path) -> None:
    verdict = stale_join(tmp_path, {"metadata.version": 11}, kafka="3.5.2").judge()
    assert cause_and_leader(verdict)[0] == "unexplained"
    assert by_name(verdict)["no-isr-join-with-an-old-broker-epoch"] == "violated"


def test_a_join_without_a_new_registration_is_no_stale_join(tmp_path: Path) -> None:
    story = stale_join(tmp_path, BEFORE_KIP_903)
    story.tables["brokers"].pop()
    assert cause_and_leader(story.judge())[0] == "unexplained"


def test_a_leader_that_lost_its_log_beside_other_isr_members_was_not_the_last_one_standing(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.state(9, isr=[1, 2])
    story.power_loss(10, 1)
    story.state(13, leader=-1)
    story.state(15, leader=1)
    story.lose(0, 99, acked_s=5)
    assert cause_and_leader(story.judge())[0] == "unexplained"


def deposed_leader_that_acks_late(record: Path, *, sent_s: float | None = 5) -> Story:
    """Broker 3 is deposed; broker 2 leads and loses its log; only then broker 3 acks. Broker 2 leads again."""
    story = Story(record)
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.state(1, leader=3)
    story.state(10, leader=2, isr=[2])
    story.power_loss(12, 2)
    story.state(13, leader=-1)
    story.broker(20, 2)
    story.state(21, leader=2)
    story.lose(0, 999, acked_s=14, sent_s=sent_s)
    return story


def test_what_a_deposed_leader_acks_late_was_lost_by_the_disk_that_had_it_when_it_was_sent(tmp_path: Path) -> None:
    loss = only_loss(deposed_leader_that_acks_late(tmp_path).judge())
    assert loss.cause == "last-replica-standing"
    assert loss.election is not None
    assert (loss.election.leader, loss.election.leader_epoch) == (2, 3)


@pytest.mark.parametrize("sent_s", [None, 12.5, 13.5])
def test_a_disk_that_lost_its_log_before_the_record_was_sent_explains_nothing(
    tmp_path: Path, sent_s: float | None
) -> None:
    assert only_loss(deposed_leader_that_acks_late(tmp_path, sent_s=sent_s).judge()).cause == "unexplained"


def test_what_was_acked_once_the_broker_led_again_is_not_excused_by_its_disk(tmp_path: Path) -> None:
    story = deposed_leader_that_acks_late(tmp_path)
    story.lost.clear()
    story.state(28, isr=[1, 2])
    story.state(30, leader=1)
    # Sent before the power loss, and acked by the leader after it: a retry.
    story.lose(0, 999, acked_s=25, sent_s=5)
    assert only_loss(story.judge()).cause == "unexplained"


def test_a_disk_explains_only_the_offsets_that_it_had(tmp_path: Path) -> None:
    story = deposed_leader_that_acks_late(tmp_path)
    assert story.steps is not None
    story.steps[-1].proof["logs"]["t-0"]["leo_before"] = 500
    found = {(loss.first_offset, loss.last_offset): loss.cause for loss in story.judge().losses}
    assert found == {(0, 499): "last-replica-standing", (500, 999): "unexplained"}


def test_a_disk_that_never_had_the_record_explains_nothing(tmp_path: Path) -> None:
    story = deposed_leader_that_acks_late(tmp_path)
    assert story.steps is not None
    story.steps[-1].proof["logs"]["t-0"]["leo_before"] = 0
    assert only_loss(story.judge()).cause == "unexplained"
