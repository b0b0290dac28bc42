"""Wire faults on real Kafka: one AlterPartition held while the world changes, and a hold that never held anything."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from live.in_process import JudgedRecord, run_and_judge

from ebbtide.record.files import RecordFolder
from ebbtide.record.steps import StepEntry, read_steps
from ebbtide.scenario import catalogue
from harness.runner.launch import LaunchOptions

if TYPE_CHECKING:
    from analysis.items.on_spark import Spark

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.spark]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, spark_if_needed: Spark) -> dict[str, JudgedRecord]:
    """By release: a run before KIP-903, and one after in which nothing but KIP-903 can refuse the late request."""
    options = LaunchOptions(runs=tmp_path_factory.mktemp("wire") / "runs", runtime="local")
    asked = {"3.4.1": "stale-isr-join", "3.9.1": "stale-isr-join-kip-903"}
    found = {}
    for kafka, scenario in asked.items():
        [found[kafka]] = run_and_judge(scenario, kafka, options=options, spark=spark_if_needed)
        assert found[kafka].verdict.outcome == "as-predicted", found[kafka].verdict.why
    return found


def _step(record: Path, name: str) -> StepEntry:
    (found,) = (one for one in read_steps(RecordFolder(record)) or [] if one.parameters.get("name") == name)
    return found


def test_before_kip_903_a_late_request_lets_an_empty_follower_join_and_lead(runs: dict[str, JudgedRecord]) -> None:
    record, verdict = runs["3.4.1"]
    (loss,) = verdict.losses
    assert (loss.cause, loss.committed, loss.count) == ("stale-isr-join", True, verdict.counts.acked)
    assert loss.election is not None
    assert (loss.election.leader,) == _step(record, "replace-the-follower").nodes


def test_with_kip_903_the_late_request_is_refused_for_its_broker_epoch(runs: dict[str, JudgedRecord]) -> None:
    record, verdict = runs["3.9.1"]
    assert (verdict.losses, verdict.regressions) == ([], [])
    with gzip.open(record / "logs" / "controller-100.log.gz", "rt") as log:
        refused = [line for line in log if "Rejecting AlterPartition request" in line]
    assert len(refused) == 1
    assert "broker epoch" in refused[0]


@pytest.mark.parametrize("kafka", ["3.4.1", "3.9.1"])
def test_the_request_was_held_alone_and_went_on_and_was_answered(runs: dict[str, JudgedRecord], kafka: str) -> None:
    record, _ = runs[kafka]
    hold = _step(record, "hold")
    assert hold.proof["held"] == 1
    # Heartbeats have a connection of their own: the leader stayed alive to the controller.
    assert hold.proof["first"]["connection_saw"].keys() <= {"ApiVersions", "AlterPartition"}
    assert hold.proof["passed"]["BrokerHeartbeat"] > 0
    released = [step.proof for step in read_steps(RecordFolder(record)) or [] if step.step == "release"]
    assert {(proof["forwarded"], proof["answered"], proof["abandoned"]) for proof in released} == {(1, 1, 0)}
    rows = [json.loads(line) for line in (record / "wire.jsonl").read_text().splitlines()]
    assert [row["event"] for row in rows if row.get("api") == "AlterPartition"] == ["held", "forwarded", "answered"]


def test_a_hold_that_never_held_anything_is_inconclusive(spark_if_needed: Spark, tmp_path: Path) -> None:
    scenario = tmp_path / "idle-hold.toml"
    steps = (
        '[[steps]]\nstep = "hold-request"\ntrigger = { acked = 100 }\ntarget = "leader(t-0)"\napi = "ElectLeaders"\n\n'
        '[[steps]]\nstep = "wait"\ntrigger = { after = "1s" }\n\n[[predictions]]'
    )
    scenario.write_text(catalogue.text_of("healthy").replace("[[predictions]]", steps, 1))
    options = LaunchOptions(runs=tmp_path / "runs", runtime="local")
    [(_, verdict)] = run_and_judge(scenario, "4.3.1", options=options, spark=spark_if_needed)
    assert verdict.outcome == "inconclusive", verdict.why
    assert any("no ElectLeaders request of broker-" in sentence for sentence in verdict.why)
