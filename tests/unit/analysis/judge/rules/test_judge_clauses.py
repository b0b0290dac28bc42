"""Each clause of the KIPs: holds on a good timeline, is violated by a bad one, unknown for want of evidence."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_records import ELR_OFF, ELR_ON, Story, by_name, last_replica_standing, ns

from analysis.judge.rules.clause import Clause, finding
from analysis.judge.rules.registry import CLAUSES
from analysis.judging import one_record as judging


def status(story: Story, name: str, *, missing: tuple[str, ...] = ()) -> str:
    return by_name(story.judge(missing=missing))[name]


def elr_story(record: Path) -> Story:
    """Last replica standing as ELR handles it: broker 3 leads out of the ELR and nothing is lost."""
    story = Story(record, kafka="4.1.0", features=ELR_ON)
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.state(1)
    story.state(10, isr=[1, 3])
    story.state(11, isr=[1], elr=[3])
    story.power_loss(12, 1)
    story.broker(15, 1, "fenced")
    story.state(15, leader=-1, isr=[], elr=[1, 3], last_known_elr=[1])
    story.state(20, elr=[3])
    story.broker(20, 1)
    story.state(25, leader=3, isr=[3], elr=[], last_known_elr=[])
    story.state(30, isr=[1, 2, 3])
    return story


def test_every_clause_holds_where_elr_does_its_work(tmp_path: Path) -> None:
    verdict = elr_story(tmp_path).judge()
    assert {name for name, one in by_name(verdict).items() if one == "violated"} == set()
    assert by_name(verdict)["isr-and-elr-disjoint"] == "holds"
    assert by_name(verdict)["elr-only-below-min-isr"] == "holds"
    assert by_name(verdict)["unclean-broker-leaves-isr-and-elr"] == "holds"
    assert by_name(verdict)["leader-in-isr"] == "holds"
    expected = {
        "elections": 1,
        "elections-from-elr": 1,
        "elr-non-empty": 1,
        "isr-below-min": 1,
        "isr-empty": 1,
        "unclean-registrations": 1,
        "power-losses": 1,
        "lost-bytes": 4096,
    }
    assert expected.items() <= verdict.coverage.items()


def test_min_isr_above_the_replication_factor_counts_as_the_replication_factor(tmp_path: Path) -> None:
    story = elr_story(tmp_path)
    story.config(0.5, "topic:t", "min.insync.replicas", "5")
    story.tables["configs"][-1]["metadata_offset"] = 1
    story.tables["partitions"][1]["elr"] = [2]
    assert status(story, "elr-only-below-min-isr") == "holds"
    story.tables["partitions"][0]["elr"] = [2]
    assert status(story, "elr-only-below-min-isr") == "violated"


def test_the_one_record_that_takes_replicas_away_counts_those_before_it_and_the_next_does_not(tmp_path: Path) -> None:
    story = Story(tmp_path, kafka="4.3.1", features=ELR_ON)
    story.state(1)
    story.state(2, replicas=[1], isr=[1], elr=[2, 3])
    assert status(story, "elr-only-below-min-isr") == "holds"
    story.state(3, elr=[3])
    assert status(story, "elr-only-below-min-isr") == "violated"


def test_an_elr_that_outlives_a_lowered_min_isr_is_a_violation(tmp_path: Path) -> None:
    story = Story(tmp_path, kafka="4.1.0", features=ELR_ON)
    story.state(1)
    story.state(10, isr=[1], elr=[2])
    story.config(12, "topic:t", "min.insync.replicas", "1")
    assert status(story, "elr-only-below-min-isr") == "violated"
    story.state(12, elr=[])
    assert status(story, "elr-only-below-min-isr") == "holds"


def test_a_broker_that_stopped_cleanly_may_keep_its_place_in_the_elr(tmp_path: Path) -> None:
    story = elr_story(tmp_path)
    story.tables["partitions"][4]["elr"] = [1, 3]
    story.steps = []
    story.step(12, "stop", 1)
    assert status(story, "unclean-broker-leaves-isr-and-elr") == "not-exercised"


def test_a_broker_that_stopped_cleanly_and_got_another_disk_may_not(tmp_path: Path) -> None:
    story = elr_story(tmp_path)
    story.tables["partitions"][4]["elr"] = [1, 3]
    story.steps = []
    story.step(12, "stop", 1)
    story.step(13, "wipe-disk", 1)
    assert status(story, "unclean-broker-leaves-isr-and-elr") == "violated"


def test_a_kill_that_was_not_proven_says_nothing_about_the_registration(tmp_path: Path) -> None:
    story = elr_story(tmp_path)
    story.tables["partitions"][4]["elr"] = [1, 3]
    story.steps = []
    story.step(12, "kill", 1, proven=False)
    assert status(story, "unclean-broker-leaves-isr-and-elr") == "not-exercised"


def test_without_elr_an_unclean_broker_may_stay_the_last_isr_member(tmp_path: Path) -> None:
    assert status(last_replica_standing(tmp_path), "unclean-broker-leaves-isr-and-elr") == "not-exercised"


def test_a_join_is_fresh_under_a_leader_epoch_that_began_after_the_registration(tmp_path: Path) -> None:
    story = elr_story(tmp_path)
    assert status(story, "no-isr-join-with-an-old-broker-epoch") == "holds"
    story.broker(40, 2)
    story.state(41, isr=[1, 3])
    story.state(42, isr=[1, 2, 3])
    assert status(story, "no-isr-join-with-an-old-broker-epoch") == "unknown"


def test_recovering_with_two_in_the_isr_is_a_violation(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.state(10, leader=-1, isr=[1])
    story.state(12, leader=3, isr=[3], leader_recovery_state=1)
    story.state(14, isr=[2, 3], leader_recovery_state=0)
    assert status(story, "recovering-has-an-isr-of-one") == "holds"
    story.tables["partitions"][-1]["leader_recovery_state"] = 1
    assert status(story, "recovering-has-an-isr-of-one") == "violated"


def test_a_reassignment_may_elect_the_replica_that_it_adds(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1, replicas=[1], isr=[1])
    story.state(10, replicas=[1, 2], adding=[2], removing=[1])
    story.state(12, replicas=[2], isr=[2], adding=[], removing=[], leader=2)
    assert status(story, "election-outside-isr-and-elr-shows-recovering") == "not-exercised"


def test_a_partition_epoch_that_goes_back_is_a_violation_and_a_jump_is_missing_evidence(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.state(10, isr=[1, 2])
    story.tables["partitions"][-1]["partition_epoch"] = 5
    assert status(story, "partition-epoch-rises-by-one") == "unknown"
    story.state(11, isr=[1])
    story.tables["partitions"][-1]["partition_epoch"] = 4
    assert status(story, "partition-epoch-rises-by-one") == "violated"


def test_a_leader_epoch_that_rises_by_two_at_once_is_a_violation(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.state(10, leader=2, leader_epoch=2)
    assert status(story, "leader-epoch-rises-by-one") == "violated"


def test_a_topic_made_again_starts_its_epochs_anew(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.state(10, leader=2)
    story.state(20, leader=1, leader_epoch=0, partition_epoch=0)
    assert status(story, "partition-epoch-rises-by-one") == "holds"
    assert status(story, "leader-epoch-rises-by-one") == "holds"


def below_min(record: Path, *, kafka: str = "3.9.1") -> Story:
    """The ISR is broker 1 alone from 10 s to 20 s."""
    story = Story(record, kafka=kafka)
    story.state(1)
    story.state(10, isr=[1])
    story.state(20, isr=[1, 2])
    story.hw(9, 1, 0, 100)
    story.hw(12, 1, 0, 150)
    story.hw(18, 1, 0, 150)
    story.hw(25, 1, 0, 300)
    return story


def test_the_hw_may_move_before_and_after_but_not_below_min_isr(tmp_path: Path) -> None:
    story = below_min(tmp_path)
    assert status(story, "hw-frozen-below-min-isr") == "holds"
    story.tables["watermarks"][2]["high_watermark"] = 151
    assert status(story, "hw-frozen-below-min-isr") == "violated"


def test_before_3_7_the_hw_may_move_below_min_isr(tmp_path: Path) -> None:
    story = below_min(tmp_path, kafka="3.6.2")
    story.tables["watermarks"][2]["high_watermark"] = 151
    assert status(story, "hw-frozen-below-min-isr") == "not-exercised"


def test_an_answer_that_the_leader_may_have_given_before_it_knew_does_not_count(tmp_path: Path) -> None:
    story = below_min(tmp_path)
    story.tables["watermarks"][1] |= {"asked_ns": ns(10.1), "at_ns": ns(10.2), "high_watermark": 120}
    assert status(story, "hw-frozen-below-min-isr") == "not-exercised"


def test_another_brokers_or_epochs_answers_do_not_count(tmp_path: Path) -> None:
    story = below_min(tmp_path)
    story.tables["watermarks"][2] |= {"broker": 2, "high_watermark": 200}
    assert status(story, "hw-frozen-below-min-isr") == "not-exercised"


def test_a_leader_cut_off_from_the_controller_cannot_know(tmp_path: Path) -> None:
    story = below_min(tmp_path)
    story.tables["watermarks"][2]["high_watermark"] = 151
    story.step(9, "partition", 1, 100, cuts=["1>100", "100>1"])
    assert status(story, "hw-frozen-below-min-isr") == "not-exercised"


def test_without_observations_the_hw_clause_is_unknown_where_it_applies(tmp_path: Path) -> None:
    assert status(below_min(tmp_path), "hw-frozen-below-min-isr", missing=("watermarks",)) == "unknown"


def test_without_a_timeline_no_clause_on_it_holds(tmp_path: Path) -> None:
    story = elr_story(tmp_path)
    statuses = by_name(story.judge(missing=("partitions",)))
    on_timeline = [clause for clause in CLAUSES if clause.reads_timeline]
    assert {statuses[clause.name] for clause in on_timeline if clause.applies is None} == {"unknown"}
    assert {statuses[clause.name] for clause in on_timeline} == {"unknown", "not-exercised"}


def test_a_checker_that_throws_is_unknown_and_the_run_inconclusive_whichever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_check(case: object) -> None:
        raise ZeroDivisionError("a defect")

    clause = Clause(kip="KIP-903", check=broken_check)  # type: ignore[arg-type]
    monkeypatch.setattr(judging, "CLAUSES", (clause,))
    story = Story(tmp_path, features=ELR_OFF)
    story.state(1)
    story.predict('loss = { committed = "none" }')
    verdict = story.judge()
    (found,) = verdict.properties
    assert found.status == "unknown"
    assert "ZeroDivisionError: a defect" in found.evidence[0]["why"]
    assert verdict.outcome == "inconclusive"


def test_findings_merge_violated_over_unknown_over_holds_over_not_exercised() -> None:
    row = {"why": "shown"}
    assert finding(exercised=2, violations=[row], unknown=[row]).status == "violated"
    assert finding(exercised=2, violations=[], unknown=[row]).status == "unknown"
    assert finding(exercised=2, violations=[]).status == "holds"
    assert finding(exercised=0, violations=[]).status == "not-exercised"
