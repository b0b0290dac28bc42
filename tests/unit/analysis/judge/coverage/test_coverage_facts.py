"""What a run exercised is counted from its metadata log: a prediction that asks for it must not be met by accident."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_records import ELR_ON, Story

from analysis.judge.coverage.partition_facts import FACTS

OTHERS = {
    *("elections", "elections-from-elr", "elections-of-last-known-leader", "unclean-elections", "leaderless"),
    *("isr-below-min", "isr-empty", "elr-non-empty", "elr-of-two", "recovering", "faults-while-recovering"),
    *("brokers-fenced", "unclean-registrations"),
}
"""Facts that come about beside those that a test of this file asserts."""


def story(record: Path, **more: object) -> Story:
    """Three brokers, alive, and their partition."""
    made = Story(record, kafka="4.1.0", features=ELR_ON)
    for broker in (1, 2, 3, 4):
        made.broker(0, broker)
        made.broker(0.5, broker, "unfenced")
    made.state(1, **more)
    return made


def facts(made: Story) -> dict[str, int]:
    """The facts that came about."""
    coverage = made.judge().coverage
    assert {fact.name for fact in FACTS} <= coverage.keys()
    return {fact.name: coverage[fact.name] for fact in FACTS if coverage[fact.name] and fact.name not in OTHERS}


def test_a_quiet_run_exercised_nothing(tmp_path: Path) -> None:
    assert facts(story(tmp_path)) == {}


def test_an_isr_that_shrinks_under_its_leader_counts_and_so_does_an_epoch_that_rises_with_it(tmp_path: Path) -> None:
    made = story(tmp_path)
    made.state(2, isr=[1, 2])
    assert facts(made) == {"isr-shrinks": 1}
    made.state(3, isr=[1, 2, 3])
    made.state(4, isr=[1, 2], leader_epoch=1)
    assert facts(made) == {"isr-shrinks": 2, "leader-epoch-raised-by-an-isr-shrink": 1}


def test_a_replica_that_joins_the_isr_and_leaves_it_under_one_leader_left_again(tmp_path: Path) -> None:
    made = story(tmp_path)
    made.state(2, isr=[1, 2])
    made.state(3, isr=[1, 2, 3])
    assert "isr-left-again" not in facts(made)
    made.state(4, isr=[1, 2])
    assert facts(made)["isr-left-again"] == 1
    made.state(5, isr=[2], leader=2)
    assert facts(made)["isr-left-again"] == 1


def test_a_new_leader_is_no_epoch_raised_by_a_shrink(tmp_path: Path) -> None:
    made = story(tmp_path)
    made.state(2, isr=[2, 3], leader=2)
    assert facts(made) == {"isr-shrinks": 1}


def test_only_an_election_before_the_broker_is_unfenced_is_one_of_a_fenced_broker(tmp_path: Path) -> None:
    made = story(tmp_path)
    made.broker(2, 1, "fenced")
    made.state(2, isr=[], elr=[1], leader=-1)
    made.broker(5, 1)
    made.state(5, isr=[1], elr=[], leader=1)
    assert facts(made)["elections-of-a-fenced-broker"] == 1
    assert "elections-of-a-fenced-broker" not in facts(_unfenced_first(tmp_path / "other"))


def _unfenced_first(record: Path) -> Story:
    record.mkdir()
    made = story(record)
    made.broker(2, 1, "fenced")
    made.state(2, isr=[], elr=[1], leader=-1)
    made.broker(5, 1)
    made.broker(6, 1, "unfenced")
    made.state(6, isr=[1], elr=[], leader=1)
    return made


def test_a_partition_without_a_leader_beside_a_live_replica_counts(tmp_path: Path) -> None:
    made = story(tmp_path)
    made.broker(2, 1, "fenced")
    made.state(2, isr=[1], leader=-1)
    assert facts(made)["leaderless-with-a-live-replica"] == 1


@pytest.mark.parametrize(("returned_s", "counted"), [(4.0, 1), (5.0, 0)])
def test_a_replica_that_is_elected_as_it_comes_alive_leaves_no_one_waiting(
    tmp_path: Path, returned_s: float, counted: int
) -> None:
    made = story(tmp_path)
    for broker in (2, 3, 1):
        made.broker(1.5, broker, "fenced")
    made.state(2, isr=[1], leader=-1)
    made.broker(returned_s, 2, "unfenced")
    made.state(5, isr=[2], leader=2, leader_recovery_state=1)
    assert facts(made).get("leaderless-with-a-live-replica", 0) == counted


def test_a_leader_that_follows_one_that_was_recovering_counts(tmp_path: Path) -> None:
    made = story(tmp_path, leader_recovery_state=1, isr=[1])
    made.state(2, isr=[2], leader=2)
    assert facts(made) == {"elections-while-recovering": 1}


def facts_of_move(record: Path, **at_the_end: object) -> dict[str, int]:
    """Broker 4 comes in for broker 1 while 2 and 3 are out of the ISR; then what `at_the_end` says."""
    made = story(record, isr=[1])
    made.state(2, replicas=[4, 2, 3, 1], adding=[4], removing=[1])
    made.state(3, adding=[], removing=[], **at_the_end)
    return {name: count for name, count in facts(made).items() if name.startswith("reassignments")}


def test_a_reassignment_that_completes_with_too_small_an_isr_counts(tmp_path: Path) -> None:
    assert facts_of_move(tmp_path, replicas=[4, 2, 3], isr=[4], leader=4) == {
        "reassignments-completed": 1,
        "reassignments-completed-below-min-isr": 1,
        "reassignments-completed-without-a-replica": 1,
    }


def test_a_reassignment_that_completes_at_min_isr_without_a_lagging_replica_counts_as_that(tmp_path: Path) -> None:
    assert facts_of_move(tmp_path, replicas=[4, 2, 3], isr=[4, 2], leader=4) == {
        "reassignments-completed": 1,
        "reassignments-completed-without-a-replica": 1,
    }


def test_a_cancelled_reassignment_is_not_completed(tmp_path: Path) -> None:
    assert facts_of_move(tmp_path, replicas=[1, 2, 3]) == {"reassignments-cancelled-below-min-isr": 1}


def test_a_reassignment_that_waits_though_what_it_adds_is_in_the_isr_is_held_back(tmp_path: Path) -> None:
    made = story(tmp_path, isr=[1])
    made.state(2, replicas=[4, 2, 3, 1], adding=[4], removing=[1])
    made.state(3, isr=[1, 4])
    made.state(4, isr=[1, 4, 2])
    assert facts(made) == {"reassignments-held-back": 1}


def test_each_controller_that_wrote_after_another_is_a_failover(tmp_path: Path) -> None:
    made = story(tmp_path)
    made.state(2, isr=[1, 2])
    made.state(3, isr=[1, 2, 3], metadata_epoch=4)
    assert facts(made)["controller-failovers"] == 1


def test_a_refusal_that_was_expected_and_came_counts(tmp_path: Path) -> None:
    made = story(tmp_path)
    made.step(2, "elect")
    assert made.judge().coverage["requests-refused"] == 0
    assert made.steps is not None
    made.steps[-1].parameters["expect_error"] = "ELECTION_NOT_NEEDED"
    assert made.judge().coverage["requests-refused"] == 1


@pytest.mark.parametrize(("proof", "count"), [({"record": {"added": 2}}, 2), ({"record": None}, 0), ({}, 0)])
def test_added_partitions_are_counted_from_the_proof(tmp_path: Path, proof: dict[str, object], count: int) -> None:
    made = story(tmp_path)
    made.step(2, "add-partitions", **proof)
    made.step(3, "add-partitions", proven=False, record={"added": 7})
    assert made.judge().coverage["partitions-added"] == count
