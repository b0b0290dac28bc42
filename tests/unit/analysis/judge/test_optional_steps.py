"""Optional steps: where one cannot fire or has no effect, the schedule goes on, and the outcome does not hang on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from judge_records import ELR_ON, Story, by_name, last_replica_standing, ns
from plain_steps import step_of, trigger_of
from scenario_problems import problems
from schedule_bench import Bench

NEVER = trigger_of(isr={"partition": "t-0", "size": 1})


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_the_schedule_goes_on_past_an_optional_step_whose_trigger_does_not_come(bench: Bench) -> None:
    _, finished = bench.run(
        step_of("wait", trigger=NEVER, deadline_s=0.05, optional=True),
        step_of("kill", target="broker(1)"),
    )
    assert finished
    waited, killed = bench.entries()
    assert waited.optional
    assert (waited.fired_ns, "isr of t-0: size 1" in (waited.why or "")) == (None, True)
    assert killed.effect_ns is not None


def test_the_schedule_goes_on_past_an_optional_step_whose_role_stands_for_nobody(bench: Bench) -> None:
    _, finished = bench.run(step_of("release", target="elr(t-0)", optional=True), step_of("heal"))
    assert finished
    released, healed = bench.entries()
    assert (released.fired_ns, healed.effect_ns is not None) == (None, True)


@pytest.mark.parametrize(("optional", "outcome"), [(True, "as-predicted"), (False, "inconclusive")])
def test_only_a_step_that_is_not_optional_must_take_effect(tmp_path: Path, optional: bool, outcome: str) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.step(2, "hold-request", proven=False)
    assert story.steps is not None
    story.steps[0] = msgspec.structs.replace(story.steps[0], parameters={"optional": optional})
    story.predict('loss = { committed = "none" }', steps=1)
    assert story.judge().outcome == outcome


@pytest.mark.parametrize(("kind", "allowed"), [("wait", True), ("elect", True), ("kill", False)])
def test_what_leaves_the_nodes_in_doubt_cannot_be_optional(kind: str, allowed: bool) -> None:
    keys = {
        "wait": 'trigger = { after = "1s" }',
        "elect": 'partition = "t-0"\ntype = "preferred"',
        "kill": 'target = "broker(1)"',
    }
    found = problems(f'step = "{kind}"\n{keys[kind]}\noptional = true')
    assert ("steps[0].optional" not in found) is allowed


# A clock that was set back neither accuses Kafka nor excuses a loss.


API = "api-agrees-with-log"


def _set_back(story: Story, at_s: float) -> None:
    """Let a leader's answers show that the clock was set back by 3 s at `at_s`."""
    story.hw(at_s, 1, 0, 5)
    story.hw(at_s - 2.9, 1, 0, 5)


def test_a_loss_after_the_clock_was_set_back_is_not_excused(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    assert [one.cause for one in story.judge().losses] == ["last-replica-standing"]
    _set_back(story, 13)
    verdict = story.judge()
    assert verdict.losses == []
    assert verdict.outcome == "inconclusive"
    assert any("the clock was set back at or after" in one for one in verdict.why)


def test_a_loss_before_the_clock_was_set_back_keeps_its_cause(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    _set_back(story, 40)
    assert [one.cause for one in story.judge().losses] == ["last-replica-standing"]


def test_a_loss_without_a_cause_is_no_accusation_if_the_clock_was_set_back(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.lose(0, 9, acked_s=5)
    assert story.judge().outcome == "contradicted"
    _set_back(story, 30)
    assert story.judge().outcome == "inconclusive"


@pytest.mark.parametrize("back_s", [1, 3, 3600])
def test_answers_of_brokers_accuse_nobody_after_the_clock_was_set_back(tmp_path: Path, back_s: int) -> None:
    story = Story(tmp_path, kafka="4.3.1", features=ELR_ON)
    story.broker(0, 1)
    story.state(1)
    story.state(10, isr=[1, 2])
    row: dict[str, Any] = {"topic": "t", "partition": 0, "broker": 1, "leader": 1, "leader_epoch": 0, "elr": []}
    for at_s, isr in ((9.5, [1, 2, 3]), (10.5 - back_s, [1, 2])):
        times = {"asked_ns": ns(at_s), "at_ns": ns(at_s + 0.01)}
        story.tables["described"].append(row | {"last_known_elr": [], "isr": isr} | times)
    verdict = story.judge()
    assert by_name(verdict)[API] == "unknown"
    assert verdict.outcome != "contradicted"


def test_a_decision_that_no_time_made_stays_a_violation(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.state(10, leader=3, isr=[1, 2])
    _set_back(story, 5)
    assert by_name(story.judge())["leader-in-isr"] == "violated"
