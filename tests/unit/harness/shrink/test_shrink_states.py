"""Times as the states that came about in them, and what becomes of these when steps are left out."""

from __future__ import annotations

from typing import Any

import msgspec
from plain_steps import trigger_of
from replay_records import LOST

from ebbtide.record.verdict import PropertyResult
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.triggers import BrokerTrigger, IsrTrigger, LeaderTrigger
from ebbtide.scenario.validate import validate
from ebbtide.scenario.words import Duration
from harness.replay.recorded_run import LoadedRun, load_run
from harness.shrink.states import RecordedStep, recorded_steps, with_state_triggers
from harness.shrink.steps import first_guesses, with_steps

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
