"""The state of a run for a display comes from the entries of the steps and from what they wait for."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.record.steps import StepEntry
from harness.runner.run_state import Awaited, step_states


@pytest.mark.parametrize(
    ("entry", "status"),
    [
        ({}, "to come"),
        ({"why": "it never fired"}, "left out"),
        ({"fired_ns": 1, "effect_ns": 2}, "in force"),
        ({"fired_ns": 1, "effect_ns": 2, "healed_ns": 3}, "done"),
        ({"step": "start", "fired_ns": 1, "effect_ns": 2}, "done"),
        ({"step": "start", "fired_ns": 1, "why": "no proof"}, "no proof"),
    ],
)
def test_a_step_says_how_far_it_is(entry: dict[str, Any], status: str) -> None:
    (state,) = step_states([StepEntry(**{"index": 0, "step": "pause", **entry})], None, {})
    assert state.status == status


def test_only_the_step_that_waits_is_waiting() -> None:
    entries = [StepEntry(index=at, step="kill") for at in range(2)]
    assert [one.status for one in step_states(entries, Awaited(0, "acked 5"), {})] == ["waiting", "to come"]


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"parameters": {"target": "leader(t-0)", "name": "loss"}}, "kill leader(t-0)"),
        ({"parameters": {"name": "loss"}}, "kill loss"),
        ({"nodes": (1, 7), "parameters": {"target": "isr(t-0)"}}, "kill broker-1, 7"),
        ({"nodes": (1,), "whom": "broker-1 > broker-2"}, "kill broker-1 > broker-2"),
    ],
)
def test_a_step_is_named_by_what_it_acts_on_or_will_act_on(entry: dict[str, Any], text: str) -> None:
    (state,) = step_states([StepEntry(**{"index": 0, "step": "kill", **entry})], None, {1: "broker-1"})
    assert state.text == text
