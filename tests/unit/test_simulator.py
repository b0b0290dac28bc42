"""The simulator's histories follow the protocol, unless a violation is planted; and their truth is what it says."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from simulator import Fault, Script, Setup, TrueHistory, draw_script, simulate
from simulator.checking import trace_of_history
from simulator.script import MS, SECOND, VIOLATIONS

SEED = 1000
STATES_SHOW_IT = ("fenced-stays-in-isr", "unclean-past-member", "unclean-not-asked", "epoch-twice")


@pytest.fixture(scope="module")
def correct() -> list[TrueHistory]:
    return [simulate(draw_script(seed, violation=False)) for seed in range(SEED, SEED + 60)]


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
