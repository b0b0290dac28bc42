"""The simulator's histories follow the protocol, unless a violation is planted; and their truth is what it says."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from records import as_record
from simulator import Fault, Script, Setup, TrueHistory, draw_script, simulate, write_record
from simulator.checking import timeline_of, trace_of_history
from simulator.compare import Judged, kind_of
from simulator.history import FALL, LOST, VANISHED
from simulator.runs_judge import judge_as_runs
from simulator.script import MS, SECOND, VIOLATIONS
from simulator.shrinking import shrink
from simulator.story import story

SEED = 1000
STATES_SHOW_IT = ("fenced-stays-in-isr", "unclean-past-member", "unclean-not-asked", "epoch-twice")


@pytest.fixture(scope="module")
def correct() -> list[TrueHistory]:
    return [simulate(draw_script(seed, violation=False)) for seed in range(SEED, SEED + 50)]


@pytest.fixture(scope="module")
def planted() -> list[TrueHistory]:
    found = (simulate(draw_script(seed, violation=True)) for seed in range(SEED, SEED + 200))
    return [one for one in found if one.violated]


def _last_replica(**setup: object) -> TrueHistory:
    """Broker 1 alone is in the ISR, and loses power."""
    faults = (
        Fault(at=3 * SECOND, kind="kill", nodes=(2, 3), lasts=9 * SECOND),
        Fault(at=8 * SECOND, kind="power-loss", nodes=(1,), lasts=SECOND),
    )
    script = Script(seed=4, setup=replace(Setup(), **setup), faults=faults)
    return simulate(script)


def test_a_script_gives_the_same_history_each_time() -> None:
    for seed in range(SEED, SEED + 5):
        assert simulate(draw_script(seed)) == simulate(draw_script(seed))


def test_each_transition_of_a_correct_history_is_one_that_the_protocol_allows(correct: list[TrueHistory]) -> None:
    explained: Counter[str] = Counter()
    for history in correct:
        trace = trace_of_history(history)
        assert not trace.refused
        assert not [one for one in trace.unexplained if not one.undecided], history.script
        explained.update(trace.actions)
    seen = {"fence", "unfence", "isr-expand", "isr-shrink", "reassign", "controlled-shutdown"}
    assert seen <= explained.keys()


def test_a_planted_violation_of_the_states_is_one_that_the_protocol_does_not_allow(
    planted: list[TrueHistory],
) -> None:
    seen = {
        history.script.violation
        for history in planted
        if history.script.violation in STATES_SHOW_IT
        and any(not one.undecided for one in trace_of_history(history).unexplained)
    }
    assert seen == set(STATES_SHOW_IT)


def test_a_fenced_broker_that_stays_in_the_isr_is_seen_whatever_disks_were_replaced(
    planted: list[TrueHistory],
) -> None:
    histories = [one for one in planted if one.script.violation == "fenced-stays-in-isr"]
    assert any(fault.kind == "wipe-disk" for one in histories for fault in one.script.faults)
    for history in histories:
        assert any(not one.undecided for one in trace_of_history(history).unexplained), history.script


def test_each_planted_violation_happens(planted: list[TrueHistory]) -> None:
    assert {one.script.violation for one in planted} == set(VIOLATIONS)


def test_a_violation_that_costs_records_leaves_some_that_no_rule_excuses(planted: list[TrueHistory]) -> None:
    accused = {one.script.violation for one in planted if any(lost.causes == {"unexplained"} for lost in one.lost)}
    assert accused >= {"hw-passes-member", "kill-drops-records", "unclean-past-member", "unclean-not-asked"}


def test_correct_histories_lose_records_in_each_way_that_the_protocol_allows(correct: list[TrueHistory]) -> None:
    causes = {cause for history in correct for lost in history.lost for cause in lost.causes}
    assert causes >= {
        "last-replica-standing",
        "beyond-tolerance",
        "unclean-election",
        "last-known-leader",
        "uncommitted-at-failover",
    }


def test_the_last_replica_that_loses_power_loses_what_it_had_not_flushed() -> None:
    lost = _last_replica().lost
    assert lost
    assert {one.causes for one in lost} == {frozenset({"last-replica-standing"})}
    assert {one.winner for one in lost} == {1}


def test_a_replica_that_flushes_each_record_loses_none() -> None:
    assert _last_replica(flush_every=5 * MS, acks=(-1,)).lost == ()


def test_a_wrong_answer_is_told_from_a_right_one_and_from_none() -> None:
    history = _last_replica()
    lost = history.lost[0]
    election = next(at for cause, at in lost.right if cause == "last-replica-standing")
    assert kind_of(lost, Judged("last-replica-standing", election)) == "right"
    assert kind_of(lost, Judged("last-replica-standing", None)) == "no-election"
    assert kind_of(lost, Judged("last-replica-standing", 1)) == "wrong-election"
    assert kind_of(lost, Judged("unclean-election", election)) == "wrong-cause"
    assert kind_of(lost, Judged("unexplained", election)) == "false-accusation"
    assert kind_of(lost, Judged()) == kind_of(lost, None) == kind_of(lost, Judged(is_allowed=True)) == "no-cause"


def test_a_cause_for_a_loss_that_the_protocol_forbids_is_a_false_excuse(planted: list[TrueHistory]) -> None:
    forbidden = (lost for one in planted for lost in one.lost if lost.causes == {"unexplained"})
    lost = next(lost for lost in forbidden if lost.is_writer_shown)
    assert kind_of(lost, Judged("last-replica-standing", 1), violated=True) == "false-excuse"
    assert kind_of(lost, Judged(is_allowed=True), violated=True) == "false-excuse"
    assert kind_of(lost, Judged(), violated=True) == "no-cause"


def test_a_wrong_history_shrinks_to_the_faults_that_it_needs() -> None:
    def loses_a_record(history: TrueHistory) -> bool:
        return any(lost.causes == {"last-replica-standing"} for lost in history.lost)

    bystander = Fault(at=2 * SECOND, kind="stall", lasts=100 * MS)
    script = _last_replica().script
    whole = replace(script, faults=(bystander, *script.faults, bystander))
    small = shrink(whole, loses_a_record)
    assert loses_a_record(simulate(small))
    assert [one.kind for one in small.faults] == ["kill", "power-loss"]


def test_a_story_tells_the_faults_the_elections_and_the_answer() -> None:
    history = _last_replica()
    told = story(history, {one.key: Judged("unclean-election") for one in history.lost})
    assert "power-loss [1]" in told
    assert "last-replica-standing at" in told
    assert "judged unclean-election at [None]: wrong-cause" in told


def test_a_written_history_is_judged_like_a_run(tmp_path: Path) -> None:
    history = _last_replica()
    record = as_record(write_record(history, tmp_path / "run"))
    assert record.timeline.partitions == timeline_of(history).partitions
    assert record.statics == {}
    assert judge_as_runs(history).keys() == {one.key for one in history.lost if one.kind == LOST}


def test_vanished_records_and_hws_that_went_back_have_a_truth(correct: list[TrueHistory]) -> None:
    gone = [one for history in correct for one in history.lost]
    assert {one.kind for one in gone} == {LOST, VANISHED, FALL}
    assert all(one.causes for one in gone if one.kind == VANISHED)
    # A lower HW comes from a leader without the record, which the protocol allowed for some reason.
    falls = [one for one in gone if one.kind == FALL]
    assert sum(bool(one.causes) for one in falls) > len(falls) * 0.9


def test_an_hw_that_went_back_is_blamed_on_no_later_election(correct: list[TrueHistory]) -> None:
    for history in correct:
        epochs = {row["metadata_offset"]: row["leader_epoch"] for row in history.tables["partitions"]}
        for one in history.lost:
            if one.until is not None:
                assert all(at is None or epochs[at] <= one.until for _, at in one.right)
