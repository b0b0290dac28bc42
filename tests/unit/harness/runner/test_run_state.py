"""The state of a run for a display comes from the entries of the steps and from what they wait for."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from cluster.host.bridge import address_of
from cluster.runtime.properties import plan_cluster
from ebbtide.record.folder import RecordFolder
from ebbtide.record.steps import StepEntry
from ebbtide.scenario import catalogue
from harness.runner import session
from harness.runner.draws import Draws
from harness.runner.run_state import SHOW_EVERY_S, Awaited, step_states
from workloads.send_account import SendCounts


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


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[session.Session, Mock, Mock]:
    """A session that watches, its display, and its clock."""
    counts = SendCounts(handed=5, acked=4, failed=1, unknown=0)
    workload = Mock(**{"send_counts.return_value": counts})
    monkeypatch.setattr(session, "Workload", lambda **_: workload)
    clock = Mock(**{"monotonic.return_value": 1_000.0})
    monkeypatch.setattr(session, "time", clock)
    scenario = msgspec.structs.replace(catalogue.find("healthy"), kafka=("4.3.1",))
    nodes = plan_cluster(scenario.cluster, address_of).nodes
    runtime = Mock(nodes=nodes, **{"data_dir.side_effect": lambda node: tmp_path / str(node)})
    display = Mock()
    return (
        session.Session(scenario, Draws(assignments={}), runtime, "run-1", RecordFolder(tmp_path), display),
        display,
        clock,
    )


def test_however_often_a_session_looks_it_shows_its_state_only_now_and_then(
    watched: tuple[session.Session, Mock, Mock],
) -> None:
    made, display, clock = watched
    for _ in range(20):
        made.watch()
    assert display.state.call_count == 1
    clock.monotonic.return_value += SHOW_EVERY_S
    made.watch()
    assert display.state.call_count == 2


def test_a_new_phase_is_shown_at_once(watched: tuple[session.Session, Mock, Mock]) -> None:
    made, display, _ = watched
    made.watch()
    with made.time_phase("settle"):
        state = display.state.call_args.args[0]
    assert (state.title, state.phase) == ("run-1", "settle")
    assert state.sends == {"sent": 5, "acked": 4, "failed": 1, "unknown": 0}
    assert set(state.brokers) == {name for name in state.nodes if name.startswith("broker-")}
    assert [step.status for step in state.steps] == ["to come"] * len(made.scenario.steps)
