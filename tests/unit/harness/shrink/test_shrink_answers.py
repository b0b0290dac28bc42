"""Answers that are none, the order of answers that come side by side, the budget; and smaller workloads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from plain_steps import step_of, trigger_of
from test_shrink_search import GOAL, NEEDED, RECORDED, Runs, in_turn, names, noisy, search, two_at_once

from ebbtide.errors import HarnessError
from ebbtide.scenario.model import ProducerSpec, Scenario
from ebbtide.scenario.words import Duration
from harness.shrink.answers import Candidate, CandidateAnswers
from harness.shrink.file import file_text
from harness.shrink.journal import Decision, Journal
from harness.shrink.search import Search, SmallerScenario, Start
from harness.shrink.topology import LostPartition, fewer_records, fewer_replicas, reductions, wait_reductions


class FailingRuns(Runs):
    """Runs of which some end by a failure of the harness."""

    def __init__(self, fails: Callable[[int, Scenario], bool]) -> None:
        super().__init__()
        self._fails = fails
        self.failures = 0

    def __call__(self, scenario: Scenario) -> Decision:
        decision = super().__call__(scenario)
        if self._fails(len(self.asked), scenario):
            self.failures += 1
            raise HarnessError("the cluster was not up in 90 s")
        return decision


def test_a_failure_of_the_harness_is_no_answer(tmp_path: Path) -> None:
    undisturbed = search(tmp_path / "undisturbed", Runs())
    assert search(tmp_path / "disturbed", FailingRuns(lambda number, _: number % 3 == 1)) == undisturbed


def test_failures_in_a_row_stop_the_shrink_which_goes_on_later(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="6 times in a row") as caught:
        search(tmp_path, FailingRuns(lambda number, _: number > 5))
    assert "the same command continues" in str(caught.value)
    again = Runs()
    assert search(tmp_path, again) == search(tmp_path / "whole", whole := Runs())
    assert again.asked == whole.asked[5:]


def test_a_candidate_that_the_harness_cannot_run_is_put_aside_and_the_result_may_become_smaller(tmp_path: Path) -> None:
    kinds = ["partition", "power-loss", "start", "heal"]
    runs = FailingRuns(lambda _, scenario: [step.step for step in scenario.steps] == kinds)
    smaller = search(tmp_path, runs)
    assert runs.failures == 2
    assert names(smaller.scenario) >= NEEDED
    assert not smaller.finished


def test_which_of_two_runs_ends_first_changes_nothing(tmp_path: Path) -> None:
    one = search(tmp_path / "one", Runs())
    runs = Runs()
    assert search(tmp_path / "two", runs, at_once=two_at_once) == one
    # What was asked ahead is known when it is asked again.
    assert len(runs.asked) == len(Journal(tmp_path / "two").runs())


def test_of_two_that_show_the_one_that_was_wanted_first_is_taken(tmp_path: Path) -> None:
    asking = CandidateAnswers(
        decide=two_at_once(lambda _: Decision(shows=True)),
        journal=Journal(tmp_path),
        time_left_s=lambda: 1.0,
        note=lambda _text: None,
    )
    wanted, other = (Candidate(name, noisy(), time) for time, name in enumerate(("wanted", "other")))
    assert asking.first([wanted, other], reserve_s=lambda _: 0.0) is wanted
    assert len(Journal(tmp_path).runs()) == 2


def test_confirming_is_part_of_the_budget(tmp_path: Path) -> None:
    runs = Runs()
    smaller = search(tmp_path, runs, runs_in_budget=8)
    assert len(runs.asked) == 8
    assert (smaller.shown, smaller.times) == (3, 3)


def test_a_result_that_gave_way_to_the_one_before_is_not_called_the_least_and_comes_again(tmp_path: Path) -> None:
    whole = Runs()
    least = search(tmp_path / "count", whole)
    assert (least.finished, least.gave_way) == (True, False)
    lucky = len(whole.asked) - 3
    smaller = search(tmp_path / "unlucky", Runs(unlucky={lucky + 1, lucky + 2}))
    assert (smaller.finished, smaller.gave_way) == (True, True)
    scenario = msgspec.structs.replace(RECORDED.scenario, steps=noisy().steps)
    recorded = msgspec.structs.replace(RECORDED, scenario=scenario)
    text = " ".join(file_text(smaller, recorded, GOAL).replace("\n#", "").split())
    assert "a smaller scenario showed this only in half of its runs or fewer" in text
    # Nothing is left to be asked.
    again = Runs()
    assert search(tmp_path / "unlucky", again) == smaller
    assert again.asked == []


def test_states_for_times_are_tried_first_and_left_where_they_do_not_show(tmp_path: Path) -> None:
    by_state = noisy()
    waits = msgspec.structs.replace(by_state.steps[5], trigger=trigger_of(after=Duration("9s")))
    by_clock = msgspec.structs.replace(by_state, steps=(*by_state.steps[:5], waits, *by_state.steps[6:]))

    def carried_out(folder: Path, runs: Runs) -> SmallerScenario:
        return Search(
            decide=in_turn(runs),
            journal=Journal(folder),
            time_left_s=lambda: 1.0,
            note=lambda _text: None,
        ).carry_out([Start(scenario=by_state), Start(scenario=by_clock)], (), LostPartition("t-1"), 3)

    def waits_for_time(scenario: Scenario) -> bool:
        return any(step.trigger == trigger_of(after=Duration("9s")) for step in scenario.steps)

    assert not waits_for_time(carried_out(tmp_path / "state", Runs()).scenario)
    assert waits_for_time(carried_out(tmp_path / "clock", Runs(needs=waits_for_time)).scenario)


def test_the_producer_whose_records_were_lost_is_the_one_that_stays() -> None:
    one, *_ = noisy().producers
    fast = msgspec.structs.replace(one, id=1, acks="1")
    safe = msgspec.structs.replace(one, id=2, acks="all")
    scenario = msgspec.structs.replace(noisy(), producers=(fast, safe))
    for reduction in reductions(scenario, LostPartition("t-1", "all")):
        scenario = reduction.apply(scenario) or scenario
    assert [producer.id for producer in scenario.producers] == [2]


def test_a_producer_without_end_sends_fewer_records_as_slowly() -> None:
    endless = msgspec.structs.replace(noisy(), producers=(ProducerSpec(id=1, topic="t", rate_per_s=300.0),))
    small = fewer_records(100)(endless)
    assert small is not None
    [producer] = small.producers
    assert producer.count == 100
    assert producer.rate_per_s == pytest.approx(3.3)
    assert fewer_records(100)(small) is None


def test_any_replica_but_the_preferred_leader_can_be_left_out() -> None:
    scenario = noisy()
    middle = fewer_replicas(1)(scenario)
    assert middle is not None
    assert middle.topics["t"].assignment == ((4, 3), (2, 1))
    assert fewer_replicas(1)(middle) is None


def test_a_wait_can_be_joined_with_the_step_after_it() -> None:
    wait = step_of("wait", trigger=trigger_of(acked=7), deadline_s=60.0)
    kill = step_of("kill", target="leader(t-1)")
    [reduction] = wait_reductions(msgspec.structs.replace(noisy(), steps=(wait, kill)))
    joined = reduction.apply(msgspec.structs.replace(noisy(), steps=(wait, kill)))
    assert joined is not None
    assert joined.steps == (msgspec.structs.replace(kill, trigger=trigger_of(acked=7), deadline_s=60.0),)
