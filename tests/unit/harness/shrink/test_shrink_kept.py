"""Which steps of the record a shrunk scenario has, also where several steps are alike."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from plain_steps import step_of, trigger_of
from replay_records import LOST

from ebbtide.scenario.words import Duration
from ebbtide.scenario.write import SCENARIO
from harness.nightly.store import Followup
from harness.replay.recorded_run import load_run
from harness.shrink.file import file_text, start_scenario
from harness.shrink.goal import goal_from_record
from harness.shrink.kept import kept_steps
from harness.shrink.search import SmallerScenario

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


def test_the_head_of_the_file_and_the_night_name_the_kept_steps() -> None:
    smaller = SmallerScenario(scenario=RECORDED.scenario, indices=(0, 1, 2), shown=3, times=3, finished=True)
    text = file_text(smaller, RECORDED, goal_from_record(RECORDED))
    assert "# Kept: step 1, power-loss leader(t-0)" in text
    line = kept_steps(RECORDED, (1,))[0].line
    assert f"line {line} of the run's scenario.toml." in " ".join(text.replace("#", "").split())
    done = Followup(run_id="r", times=3, same=3, smaller="small.toml", steps=2, steps_before=9, kept=(2, 7))
    assert "2 of 9 steps are enough (2, 7): `small.toml`" in done.describe()


@pytest.mark.parametrize("finished", [True, False])
def test_only_the_file_of_a_finished_search_says_that_nothing_less_is_left(*, finished: bool) -> None:
    smaller = SmallerScenario(scenario=RECORDED.scenario, indices=(0, 1, 2), shown=3, times=3, finished=finished)
    goal = goal_from_record(RECORDED)
    started = msgspec.structs.replace(smaller, scenario=start_scenario(RECORDED.scenario, RECORDED, goal))
    text = file_text(started, RECORDED, goal)
    assert ("the least that is left of" in text) is finished
    assert ("what is left of last-replica-standing so far" in text) is not finished
