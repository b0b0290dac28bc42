"""Steps on clients: each asks for one thing, and its proof is how the process ended, or that the new one works."""

from __future__ import annotations

from pathlib import Path

import pytest
from schedule_bench import Bench, FakeClients

from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.clients import ClientName, KillClientStep, StartClientStep, StopClientStep

CONSUMER = ClientName("consumer(1)")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def only(bench: Bench) -> StepEntry:
    (entry,) = bench.entries()
    return entry


def test_a_client_is_killed_and_started_and_no_node_is_touched(bench: Bench) -> None:
    bench.clients = FakeClients({"consumer-1"})
    bench.run(KillClientStep(client=CONSUMER), StartClientStep(client=CONSUMER))
    assert bench.clients.asked == ["kill consumer-1", "start consumer-1"]
    entries = bench.entries()
    assert [one.proof["probe"] for one in entries] == ["ok", "ok"]
    assert [(one.nodes, one.whom) for one in entries] == [((), "consumer-1")] * 2
    assert bench.done == []


def test_a_kill_that_did_not_end_the_process_is_no_kill(bench: Bench) -> None:
    bench.clients = FakeClients({"consumer-1"}, ended_by=0)
    bench.run(KillClientStep(client=CONSUMER))
    assert only(bench).effect_ns is None
    assert only(bench).why == "the process ended with status 0, not by this step"


def test_a_client_that_had_to_be_killed_was_not_shut_down(bench: Bench) -> None:
    bench.clients = FakeClients({"consumer-1"}, ended_by=-9)
    bench.run(StopClientStep(client=CONSUMER))
    assert only(bench).why == "the process ended with status -9: not in order"


def test_a_client_that_does_not_work_was_not_started(bench: Bench) -> None:
    bench.clients = FakeClients(works=False)
    bench.run(StartClientStep(client=CONSUMER, deadline_s=0.2))
    assert only(bench).effect_ns is None
    assert "consumer-1 to work" in (only(bench).why or "")
