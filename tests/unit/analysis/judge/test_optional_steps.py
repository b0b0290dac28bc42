"""Optional steps: where one cannot fire or has no effect, the schedule goes on, and the outcome does not hang on it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from judge_records import Story
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
