"""Wire faults on real Kafka: one AlterPartition held while the world changes, and a hold that never held anything."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from live.commands import ebbtide, records_in

from ebbtide.record.manifest import read_manifest
from ebbtide.record.steps import StepEntry, read_steps
from ebbtide.record.verdict import Verdict, read_verdict
from ebbtide.scenario import catalogue

pytestmark = [pytest.mark.live, pytest.mark.slow]


def _verdict(record: Path) -> Verdict:
    verdict = read_verdict(record)
    assert verdict is not None
    return verdict


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One run before KIP-903, and one after in which nothing but KIP-903 can refuse the late request."""
    runs = tmp_path_factory.mktemp("wire") / "runs"
    for scenario, kafka in (("stale-isr-join", "3.4.1"), ("stale-isr-join-kip-903", "3.9.1")):
        done = ebbtide("run", scenario, "--kafka", kafka, "--runs", runs)
        assert done.returncode == 0, done.stdout + done.stderr
    return {read_manifest(record).kafka: record for record in records_in(runs)}


def _step(record: Path, name: str) -> StepEntry:
    (found,) = (one for one in read_steps(record) or [] if one.parameters.get("name") == name)
    return found


def test_before_kip_903_a_late_request_lets_an_empty_follower_join_and_lead(records: dict[str, Path]) -> None:
    verdict = _verdict(records["3.4.1"])
    (loss,) = verdict.losses
    assert (loss.cause, loss.committed, loss.count) == ("stale-isr-join", True, verdict.counts.acked)
    assert loss.election is not None
    assert (loss.election.leader,) == _step(records["3.4.1"], "replace-the-follower").nodes


def test_with_kip_903_the_late_request_is_refused_for_its_broker_epoch(records: dict[str, Path]) -> None:
    verdict = _verdict(records["3.9.1"])
    assert (verdict.losses, verdict.regressions) == ([], [])
    with gzip.open(records["3.9.1"] / "logs" / "controller-100.log.gz", "rt") as log:
        refused = [line for line in log if "Rejecting AlterPartition request" in line]
    assert len(refused) == 1
    assert "broker epoch" in refused[0]


@pytest.mark.parametrize("kafka", ["3.4.1", "3.9.1"])
def test_the_request_was_held_alone_and_went_on_and_was_answered(records: dict[str, Path], kafka: str) -> None:
    hold = _step(records[kafka], "hold")
    assert hold.proof["held"] == 1
    # Heartbeats have a connection of their own: the leader stayed alive to the controller.
    assert hold.proof["first"]["connection_saw"].keys() <= {"ApiVersions", "AlterPartition"}
    assert hold.proof["passed"]["BrokerHeartbeat"] > 0
    released = [step.proof for step in read_steps(records[kafka]) or [] if step.step == "release"]
    assert {(proof["forwarded"], proof["answered"], proof["abandoned"]) for proof in released} == {(1, 1, 0)}
    rows = [json.loads(line) for line in (records[kafka] / "wire.jsonl").read_text().splitlines()]
    assert [row["event"] for row in rows if row.get("api") == "AlterPartition"] == ["held", "forwarded", "answered"]


def test_a_hold_that_never_held_anything_is_inconclusive(tmp_path: Path) -> None:
    scenario = tmp_path / "idle-hold.toml"
    steps = (
        '[[steps]]\nstep = "hold-request"\ntrigger = { acked = 100 }\ntarget = "leader(t-0)"\napi = "ElectLeaders"\n\n'
        '[[steps]]\nstep = "wait"\ntrigger = { after = "1s" }\n\n[[predictions]]'
    )
    scenario.write_text(catalogue.text_of("healthy").replace("[[predictions]]", steps, 1))
    done = ebbtide("run", scenario, "--kafka", "4.3.1", "--runs", tmp_path / "runs")
    (record,) = records_in(tmp_path / "runs")
    verdict = _verdict(record)
    assert (done.returncode, verdict.outcome) == (2, "inconclusive"), done.stdout + done.stderr
    assert any("no ElectLeaders request of broker-" in sentence for sentence in verdict.why)
