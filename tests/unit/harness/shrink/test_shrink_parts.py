"""The parts of a shrink: delta debugging, which steps were kept, and times as states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from plain_steps import step_of, trigger_of
from replay_records import LOST

from ebbtide.record.verdict import PropertyResult
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.triggers import BrokerTrigger, IsrTrigger, LeaderTrigger
from ebbtide.scenario.validate import validate
from ebbtide.scenario.words import Duration
from ebbtide.scenario.write import SCENARIO
from harness.nightly.store import Followup
from harness.replay.recorded_run import LoadedRun, load_run
from harness.shrink.ddmin import First, Subset, ddmin
from harness.shrink.file import file_text, kept_steps
from harness.shrink.goal import goal_from_record
from harness.shrink.search import SmallerScenario
from harness.shrink.states import RecordedStep, recorded_steps, with_state_triggers
from harness.shrink.steps import first_guesses, with_steps


class NeededItems:
    """Shows whenever all `needed` are there; counts how often it was asked."""

    def __init__(self, *needed: int) -> None:
        self.needed = set(needed)
        self.asked: list[tuple[int, ...]] = []

    def __call__(self, part: tuple[int, ...]) -> bool:
        self.asked.append(part)
        return self.needed <= set(part)


def in_turn(shows: Callable[[tuple[int, ...]], bool]) -> First:
    """Asks about one part after the other."""
    return lambda parts: next((part for part in parts if shows(part.kept)), None)


@pytest.mark.parametrize("needed", [(), (7,), *combinations(range(15), 2), (3, 4, 5, 6), (1, 5, 9, 13), range(15)])
def test_exactly_the_items_that_are_needed_are_left(needed: Sequence[int]) -> None:
    assert ddmin(tuple(range(15)), in_turn(NeededItems(*needed))) == tuple(needed)


def test_four_scattered_items_of_fifteen_take_few_questions_and_none_is_asked_twice() -> None:
    needs = NeededItems(1, 5, 9, 13)
    ddmin(tuple(range(15)), in_turn(needs))
    assert len(needs.asked) == len(set(needs.asked))
    assert len(needs.asked) <= 28


def test_what_makes_no_sense_alone_is_never_asked_about() -> None:
    def valid_items(part: tuple[int, ...]) -> tuple[int, ...]:
        """Each odd item needs the even one before it."""
        return tuple(item for item in part if item % 2 == 0 or item - 1 in part)

    needs = NeededItems(4, 5)
    assert ddmin(tuple(range(10)), in_turn(needs), whole=valid_items) == (4, 5)
    assert all(part == valid_items(part) for part in needs.asked)


def test_parts_that_are_asked_about_ahead_change_nothing() -> None:
    def all_of_them(parts: Iterable[Subset]) -> Subset | None:
        return in_turn(needs)(list(parts))

    needs = NeededItems(1, 5, 9, 13)
    assert ddmin(tuple(range(15)), all_of_them) == (1, 5, 9, 13)


class Flaky(NeededItems):
    """Like `Needs`, but a part with all items shows the finding only with a probability."""

    def __init__(self, seed: int, probability: float, *needed: int) -> None:
        super().__init__(*needed)
        self._random, self._probability = Random(seed), probability

    def __call__(self, part: tuple[int, ...]) -> bool:
        return super().__call__(part) and self._random.random() < self._probability


def test_what_four_runs_of_five_show_loses_all_but_one_of_its_sixteen_needless_items_in_fifty_runs() -> None:
    left, asked = [], []
    for seed in range(200):
        flaky = Flaky(seed, 0.8, *Random(seed).sample(range(20), 4))
        left.append(len(ddmin(tuple(range(20)), in_turn(flaky), refusals=2)))
        asked.append(len(flaky.asked))
    assert sum(one <= 5 for one in left) >= 197
    assert max(asked) <= 50
    assert sum(asked) / len(asked) <= 31


# Which steps of the record a shrunk scenario has, also where several steps are alike.


RECORDED = load_run(LOST)


def test_a_kept_step_has_its_index_its_line_and_whom_it_hit() -> None:
    lines = (LOST / SCENARIO).read_text().splitlines()
    cut, loss = kept_steps(RECORDED, (0, 1))
    assert (cut.index, loss.index) == (0, 1)
    assert cut.line is not None
    assert loss.line is not None
    assert lines[cut.line - 1 : cut.line + 1] == ["[[steps]]", 'step = "partition"']
    assert lines[loss.line - 1 : loss.line + 1] == ["[[steps]]", 'step = "power-loss"']
    assert loss.text == "power-loss leader(t-0)"
    assert cut.text == "partition groups=followers(t-0) | leader(t-0), controllers, clients"
    assert (cut.alike_left_out, loss.alike_left_out) == ((), ())


def test_a_step_that_did_the_same_and_was_left_out_is_named() -> None:
    kills = [
        step_of("kill", name="first", target="broker(1)"),
        step_of("kill", target="broker(2)"),
        step_of("kill", target="broker(1)", trigger=trigger_of(after=Duration("1s")), deadline_s=9.0),
        step_of("kill", target="broker(1)"),
    ]
    scenario = msgspec.structs.replace(RECORDED.scenario, steps=tuple(kills))
    recorded = msgspec.structs.replace(RECORDED, scenario=scenario, steps=(), folder=Path("/nowhere"))
    one, two = kept_steps(recorded, (1, 2))
    assert one.alike_left_out == ()
    assert two.alike_left_out == (0, 3)
    assert two.describe() == "step 2, kill broker(1); not steps 0, 3, which do the same"
    assert kept_steps(recorded, (0, 2))[0].alike_left_out == (3,)


# Times as the states that came about in them, and what becomes of these when steps are left out.


LONG_BEFORE_S = 60.0


def by_clock() -> LoadedRun:
    """Last replica standing, whose steps wait for times: a cut, a power loss, a start, a heal."""
    recorded = load_run(LOST)
    first, *rest = recorded.scenario.steps
    steps = (first, *(msgspec.structs.replace(step, trigger=trigger_of(after=Duration("3s"))) for step in rest))
    return msgspec.structs.replace(recorded, scenario=msgspec.structs.replace(recorded.scenario, steps=steps))


def rewritten(recorded: LoadedRun, blamed: str | None) -> tuple[Scenario, tuple[RecordedStep, ...]]:
    found = with_state_triggers(recorded.scenario, recorded, blamed)
    assert found is not None
    return found


def test_a_time_gives_way_to_the_state_that_came_about_in_it() -> None:
    scenario, was = rewritten(by_clock(), "t-0")
    assert [step.trigger for step in scenario.steps[1:3]] == [
        trigger_of(isr={"partition": "t-0", "size": 1}),
        trigger_of(leader_is={"partition": "t-0", "broker": "none"}),
    ]
    assert [one.after for one in was[:3]] == [None, Duration("3s"), Duration("3s")]
    assert list(validate(scenario)) == []


def test_a_state_of_another_partition_than_the_one_that_lost_is_not_waited_for() -> None:
    scenario, _ = rewritten(by_clock(), "other-0")
    waited = [step.trigger for step in scenario.steps if step.trigger is not None]
    assert not any(isinstance(trigger, IsrTrigger | LeaderTrigger) for trigger in waited)
    assert any(isinstance(trigger, BrokerTrigger) for trigger in waited)


def test_a_time_in_which_nothing_changed_stays() -> None:
    recorded = by_clock()
    now = recorded.steps[1].fired_ns
    steps = tuple(msgspec.structs.replace(entry, fired_ns=now) for entry in recorded.steps)
    assert with_state_triggers(recorded.scenario, msgspec.structs.replace(recorded, steps=steps), "t-0") is None


def test_a_state_whose_cause_is_left_out_gives_way_to_its_time() -> None:
    scenario, was = rewritten(by_clock(), "t-0")
    assert was[1].needs == {0}
    assert with_steps(scenario, (0, 1), 500, was=was).steps[1] == scenario.steps[1]
    # The leader is none because of the cut and the power loss.
    assert with_steps(scenario, (0, 2), 500, was=was).steps[1].trigger == trigger_of(after=Duration("3000ms"))


def test_a_patient_schedule_waits_as_long_as_the_steps_that_are_gone_took() -> None:
    recorded = by_clock()
    was = tuple(
        msgspec.structs.replace(one, fired_ns=round(at * LONG_BEFORE_S * 1e9))
        for at, one in enumerate(recorded_steps(recorded))
    )
    hasty = with_steps(recorded.scenario, (0, 3), 500, was=was).steps[1]
    patient = with_steps(recorded.scenario, (0, 3), 500, was=was, patient=True).steps[1]
    assert hasty.trigger == trigger_of(after=Duration("3s"))
    assert patient.trigger == trigger_of(after=Duration("180000ms"))
    assert patient.deadline_s > 180


def test_a_violation_is_guessed_by_the_metadata_record_that_it_points_at() -> None:
    recorded = load_run(LOST)
    assert recorded.verdict is not None
    (loss,) = [one for one in recorded.verdict.losses if one.committed][:1]
    assert loss.election is not None
    evidence: list[Any] = [{"why": "so", "before": {"metadata_offset": loss.election.metadata_offset}}]
    violated = PropertyResult(name="leader-in-isr", kip="KIP-966", status="violated", evidence=evidence)
    verdict = msgspec.structs.replace(recorded.verdict, losses=[], regressions=[], properties=[violated])
    assert first_guesses(msgspec.structs.replace(recorded, verdict=verdict)) == first_guesses(recorded)


def test_optional_steps_that_did_nothing_in_the_record_are_in_no_guess() -> None:
    recorded = load_run(LOST)
    first, *rest = recorded.steps
    refused = msgspec.structs.replace(first, step="elect", index=0, effect_ns=None)
    steps = tuple(msgspec.structs.replace(one, index=at) for at, one in enumerate((refused, first, *rest)))
    assert first_guesses(msgspec.structs.replace(recorded, steps=steps)) == [(1, 2, 3), (1, 2, 3, 4)]


def test_the_head_of_the_file_and_the_night_name_the_kept_steps() -> None:
    smaller = SmallerScenario(scenario=RECORDED.scenario, indices=(0, 1, 2), shown=3, times=3, finished=True)
    text = file_text(smaller, RECORDED, goal_from_record(RECORDED))
    assert "# Kept: step 1, power-loss leader(t-0)" in text
    line = kept_steps(RECORDED, (1,))[0].line
    assert f"line {line} of the run's scenario.toml." in " ".join(text.replace("#", "").split())
    done = Followup(run_id="r", times=3, same=3, smaller="small.toml", steps=2, steps_before=9, kept=(2, 7))
    assert "2 of 9 steps are enough (2, 7): `small.toml`" in done.describe()
