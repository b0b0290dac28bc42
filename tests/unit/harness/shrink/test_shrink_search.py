"""The search for a smaller scenario, with a stand-in for the runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from pathlib import Path

import msgspec
import pytest
from plain_steps import step_of, trigger_of
from replay_records import LOST

from ebbtide.errors import ExitCode, HarnessError
from ebbtide.scenario.model import ProducerSpec, Scenario
from ebbtide.scenario.parse import parse
from ebbtide.scenario.plain_values import from_plain, to_plain
from ebbtide.scenario.steps.step import StepSpec, target_of
from ebbtide.scenario.words import Duration, Role
from ebbtide.scenario.write import text_of
from harness.replay.plan import plan
from harness.replay.recorded_run import load_run
from harness.shrink.answers import CandidateRun, Decide
from harness.shrink.file import file_text, start_scenario
from harness.shrink.goal import goal_from_record
from harness.shrink.journal import Decision, Journal
from harness.shrink.search import NotReproduced, Search, SmallerScenario, Start
from harness.shrink.steps import first_guesses, with_steps
from harness.shrink.topology import LostPartition, only_partition

RECORDED = load_run(LOST)
GOAL = goal_from_record(RECORDED)
AFTER = trigger_of(after=Duration("1s"))
NEEDED = {"cut-followers", "leader-loses-power", "back"}

NOISE = (
    step_of("pause", name="nap", target="broker(1)", trigger=trigger_of(acked=100)),
    step_of("resume", target="step(nap)", trigger=trigger_of(after=Duration("1s"))),
    step_of("isolate", target="broker(3)"),
    step_of("heal", trigger=trigger_of(after=Duration("1s"))),
)


def noisy() -> Scenario:
    """Last replica standing on five brokers and two topics, behind four steps that do not matter."""
    scenario = start_scenario(plan(RECORDED).scenario, RECORDED, GOAL)
    steps = [*NOISE, *scenario.steps]
    steps[6] = msgspec.structs.replace(steps[6], name="back")
    topic = scenario.topics["t"]
    wide = msgspec.structs.replace(topic, partitions=2, assignment=((4, 5, 3), (2, 3, 1)))
    steps = [_on_partition_one(step) for step in steps]
    return msgspec.structs.replace(
        scenario,
        cluster=msgspec.structs.replace(scenario.cluster, brokers=5, controllers=3),
        topics={"t": wide, "other": msgspec.structs.replace(topic, assignment=((1, 2, 3),))},
        producers=(*scenario.producers, ProducerSpec(id=2, topic="other", count=10)),
        steps=tuple(steps),
    )


def _on_partition_one(step: StepSpec) -> StepSpec:
    return from_plain(msgspec.json.decode(msgspec.json.encode(to_plain(step)).replace(b"t-0", b"t-1")), StepSpec)


def names(scenario: Scenario) -> set[str]:
    return {step.name for step in scenario.steps if step.name is not None}


class Runs:
    """Stands in for real runs: the finding shows where the needed steps are, except in runs of bad luck."""

    def __init__(self, *, unlucky: Collection[int] = (), needs: Callable[[Scenario], bool] = lambda _: True) -> None:
        self.asked: list[Scenario] = []
        self._unlucky = unlucky
        self._needs = needs

    def __call__(self, scenario: Scenario) -> Decision:
        parse(text_of(scenario), file="a candidate")
        self.asked.append(scenario)
        shows = names(scenario) >= NEEDED and self._needs(scenario) and len(self.asked) not in self._unlucky
        return Decision(shows=shows, took_s=1.0)


def in_turn(runs: Callable[[Scenario], Decision]) -> Decide:
    """One run after the other."""

    def decide(wanted: Iterable[CandidateRun]) -> Generator[tuple[int, Decision | HarnessError], None, None]:
        for number, _, scenario in wanted:
            try:
                yield number, runs(scenario)
            except HarnessError as error:
                yield number, error

    return decide


def two_at_once(runs: Callable[[Scenario], Decision]) -> Decide:
    """Two runs side by side, of which the later one ends first."""

    def decide(wanted: Iterable[CandidateRun]) -> Generator[tuple[int, Decision | HarnessError], None, None]:
        running: list[CandidateRun] = []
        for one in wanted:
            running.append(one)
            if len(running) == 2:
                number, _, scenario = running.pop()
                yield number, runs(scenario)
        for number, _, scenario in running:
            yield number, runs(scenario)

    return decide


def search(
    folder: Path,
    runs: Runs,
    *,
    runs_in_budget: float = 10_000,
    at_once: Callable[[Runs], Decide] = in_turn,
    scenario: Scenario | None = None,
) -> SmallerScenario:
    return Search(
        decide=at_once(runs),
        journal=Journal(folder),
        time_left_s=lambda: runs_in_budget - len(runs.asked),
        note=lambda _text: None,
    ).carry_out([Start(scenario=scenario or noisy())], (), LostPartition("t-1", "all"), 3)


def test_steps_brokers_partitions_producers_consumers_and_records_are_left_out(tmp_path: Path) -> None:
    smaller = search(tmp_path, Runs())
    left = smaller.scenario
    assert [step.step for step in left.steps] == ["partition", "power-loss", "start"]
    assert (left.cluster.brokers, left.cluster.controllers) == (2, 1)
    assert left.topics.keys() == {"t"}
    assert (left.topics["t"].partitions, left.topics["t"].assignment) == (1, ((1, 2),))
    assert [(one.id, one.count) for one in left.producers] == [(1, 20)]
    assert left.consumers == ()
    assert target_of(left.steps[1]) == Role("leader(t-0)")
    assert (smaller.shown, smaller.times, smaller.finished) == (3, 3, True)


def test_the_result_says_which_step_of_the_record_each_of_its_steps_is(tmp_path: Path) -> None:
    assert search(tmp_path / "one", Runs()).indices == (4, 5, 6)
    # Two isolations of one broker, of which only one matters; and a wait that becomes the trigger of the next step.
    steps = list(noisy().steps)
    twice = [*steps[:4], step_of("isolate", name="it", target="broker(3)"), step_of("wait", trigger=AFTER), *steps[4:]]
    for needed, gone in (("it", 2), ("other", 4)):
        named = [msgspec.structs.replace(one, name="other") if at == 2 else one for at, one in enumerate(twice)]
        smaller = search(
            tmp_path / needed,
            Runs(needs=lambda one, needed=needed: needed in names(one)),
            scenario=msgspec.structs.replace(noisy(), steps=tuple(named)),
        )
        assert smaller.indices == (6 - gone, 6, 7, 8)
        assert [named[at].step for at in smaller.indices] == [step.step for step in smaller.scenario.steps]


def test_what_the_finding_needs_of_the_cluster_stays(tmp_path: Path) -> None:
    smaller = search(tmp_path, Runs(needs=lambda one: one.topics["t"].replication_factor == 3 and bool(one.consumers)))
    assert smaller.scenario.cluster.brokers == 3
    assert len(smaller.scenario.consumers) == 1
    assert len(smaller.scenario.producers) == 1


def test_a_schedule_that_lost_its_beginning_waits_for_records_first() -> None:
    scenario = noisy()
    whole_again = trigger_of(isr={"partition": "t-1", "at_least": 3})
    steps = (*scenario.steps[:4], msgspec.structs.replace(scenario.steps[4], trigger=whole_again), *scenario.steps[5:])
    scenario = msgspec.structs.replace(scenario, steps=steps)
    assert with_steps(scenario, (4, 5, 6), 500).steps[0].trigger == trigger_of(acked=500)
    assert with_steps(scenario, (0, 4, 5, 6), 500).steps[1].trigger == whole_again


def test_only_the_partition_that_lost_is_kept_with_its_own_replicas() -> None:
    small = only_partition("t-1")(noisy())
    assert small is not None
    assert small.topics["t"].assignment == ((2, 3, 1),)
    assert all("t-1" not in str(step) for step in small.steps)
    assert [one.topic for one in small.producers] == ["t"]


def test_a_search_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    whole = Runs()
    expected = search(tmp_path / "whole", whole)

    class HarnessKilled(Exception):
        pass

    class DyingRuns(Runs):
        def __call__(self, scenario: Scenario) -> Decision:
            if len(self.asked) == 5:
                raise HarnessKilled
            return super().__call__(scenario)

    first, second = DyingRuns(), Runs()
    with pytest.raises(HarnessKilled):
        search(tmp_path / "killed", first)
    assert search(tmp_path / "killed", second) == expected
    assert [*first.asked, *second.asked] == whole.asked


def test_a_line_that_a_kill_cut_short_is_asked_again(tmp_path: Path) -> None:
    first = Runs()
    expected = search(tmp_path, first)
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    again = Runs()
    assert search(tmp_path, again) == expected
    assert again.asked == first.asked[-1:]
    nothing_new = Runs()
    assert search(tmp_path, nothing_new) == expected
    assert nothing_new.asked == []


def test_a_spent_budget_keeps_the_smallest_so_far_and_says_that_it_is_not_finished(tmp_path: Path) -> None:
    smaller = search(tmp_path, Runs(), runs_in_budget=6)
    assert not smaller.finished
    assert names(smaller.scenario) >= NEEDED
    assert smaller.shown == 3
    assert search(tmp_path, Runs()).finished


@pytest.mark.parametrize("runs_in_budget", [7.9, 9.5, 12.1])
def test_no_run_starts_that_would_end_after_the_budget(tmp_path: Path, runs_in_budget: float) -> None:
    runs = Runs()
    assert not search(tmp_path, runs, runs_in_budget=runs_in_budget).finished
    assert len(runs.asked) == int(runs_in_budget)


def test_a_schedule_that_does_not_show_its_finding_again_is_inconclusive(tmp_path: Path) -> None:
    runs = Runs(needs=lambda _scenario: False)
    with pytest.raises(NotReproduced) as caught:
        search(tmp_path, runs)
    assert caught.value.exit_code == ExitCode.INCONCLUSIVE
    assert len(runs.asked) == 2


def test_a_result_that_seldom_shows_gives_way_to_the_one_before(tmp_path: Path) -> None:
    lucky = len(search_asked(tmp_path / "count")) - 3
    runs = Runs(unlucky={lucky + 1, lucky + 2})
    smaller = search(tmp_path / "unlucky", runs)
    assert (smaller.shown, smaller.times) == (3, 3)
    assert smaller.scenario != runs.asked[lucky]
    # The smallest was asked for its rate, then the one before it, and no other.
    assert len(runs.asked) == lucky + 6


def search_asked(folder: Path) -> list[Scenario]:
    runs = Runs()
    search(folder, runs)
    return runs.asked


def test_the_first_guess_is_what_happened_since_the_cluster_was_last_whole() -> None:
    # Of the four steps the last, a heal, came after the election that lost the records.
    assert first_guesses(RECORDED) == [(0, 1, 2)]
    first, *rest = RECORDED.steps
    earlier = msgspec.structs.replace(first, fired_ns=(first.fired_ns or 0) - 1_000_000)
    steps = tuple(msgspec.structs.replace(step, index=at) for at, step in enumerate((earlier, first, *rest)))
    assert first_guesses(msgspec.structs.replace(RECORDED, steps=steps)) == [(1, 2, 3), (0, 1, 2, 3)]


def test_the_file_says_where_it_comes_from_and_can_be_run(tmp_path: Path) -> None:
    smaller = search(tmp_path, Runs())
    scenario = msgspec.structs.replace(RECORDED.scenario, steps=noisy().steps)
    text = file_text(smaller, msgspec.structs.replace(RECORDED, scenario=scenario), GOAL)
    assert text.startswith(
        "# Shows: committed loss by last-replica-standing, on Kafka 3.9.1, in 3 of 3 runs.\n"
        "# From run 20261121T124641-last-replica-standing-3.9.1-e31a (last-replica-standing): 8 steps, 3 brokers, "
    )
    scenario = parse(text, file="the file")
    assert scenario == smaller.scenario
    assert scenario.kafka == ("3.9.1",)
    assert scenario.predictions[0].loss.cause == "last-replica-standing"
