"""Last Replica Standing on real Kafka, from one command to a judged record: lost without ELR, kept with it."""

from __future__ import annotations

import io
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from host_state import HostState, left_after
from host_turn import HOST
from live import in_process
from live.commands import command, ebbtide, records_in
from rich.console import Console

from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.steps import read_steps
from ebbtide.record.sums import SUMS
from ebbtide.record.verdict import Verdict, read_verdict
from ebbtide.waiting import wait_until
from harness.runner.launch import LaunchOptions

if TYPE_CHECKING:
    from analysis.items.on_spark import Spark

pytestmark = pytest.mark.live


class Demo(msgspec.Struct, frozen=True, kw_only=True):
    """What `ebbtide run last-replica-standing --kafka 3.9.1,4.3.1` said and left; `records` by release."""

    exit_code: int
    output: str
    errors: str
    records: dict[str, Path]
    left: list[str]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The demo, and what it left on the host."""
    runs = tmp_path_factory.mktemp("demo") / "runs"
    before = HostState.now()
    done = ebbtide("run", "last-replica-standing", "--kafka", "3.9.1,4.3.1", "--runs", runs)
    return Demo(
        exit_code=done.returncode,
        output=done.stdout,
        errors=done.stderr,
        records={record.name.split("-standing-")[1].rsplit("-", 1)[0]: record for record in records_in(runs)},
        left=HostState.now().left_since(before, *(record.name for record in records_in(runs)), str(runs)),
    )


def verdict_of(record: Path) -> Verdict:
    verdict = read_verdict(RecordFolder(record))
    assert verdict is not None
    return verdict


def test_the_demo_ends_as_predicted_on_both_releases_and_leaves_nothing(demo: Demo) -> None:
    assert demo.exit_code == 0, demo.output + demo.errors
    assert set(demo.records) == {"3.9.1", "4.3.1"}
    assert {verdict_of(record).outcome for record in demo.records.values()} == {"as-predicted"}
    assert demo.left == []


def test_without_elr_every_acked_record_that_was_not_flushed_is_lost_by_the_named_election(demo: Demo) -> None:
    verdict = verdict_of(demo.records["3.9.1"])
    (loss,) = verdict.losses
    assert loss.cause == "last-replica-standing"
    assert loss.committed
    assert loss.count == verdict.counts.acked >= 1000
    steps = {step.step: step for step in read_steps(RecordFolder(demo.records["3.9.1"])) or []}
    assert loss.election is not None
    assert (loss.election.leader,) == steps["power-loss"].nodes
    assert loss.election.leader_epoch == 2


def test_without_elr_the_high_watermark_goes_back_to_nothing(demo: Demo) -> None:
    verdict = verdict_of(demo.records["3.9.1"])
    (regression,) = verdict.regressions
    assert (regression.from_, regression.to) == (verdict.counts.acked, 0)
    assert regression.cause == "last-replica-standing"


def test_with_elr_nothing_is_lost_and_an_elr_member_leads(demo: Demo) -> None:
    verdict = verdict_of(demo.records["4.3.1"])
    assert verdict.losses == []
    assert verdict.regressions == []
    assert verdict.counts.acked >= 1000
    assert verdict.coverage["elections-from-elr"] == 1
    assert re.search(r"elected from ELR +- +broker\s+[123],\s+leader\s+epoch\s+2,\s+metadata\s+offset \d+", demo.output)
    assert read_manifest(RecordFolder(demo.records["4.3.1"])).features["eligible.leader.replicas.version"] == 1


@pytest.mark.parametrize("kafka", ["3.9.1", "4.3.1"])
def test_what_the_brokers_described_is_what_the_metadata_log_has(demo: Demo, kafka: str) -> None:
    verdict = verdict_of(demo.records[kafka])
    (agrees,) = [one for one in verdict.properties if one.name == "api-agrees-with-log"]
    assert agrees.status == "holds", agrees.evidence
    assert verdict.coverage["described-as-in-force"] > 10


def test_a_release_without_elr_describes_none(demo: Demo) -> None:
    """That one with it does is test_described.py's: here the ELR can come and go between two samples."""
    assert verdict_of(demo.records["3.9.1"]).coverage["described-elr"] == 0


@pytest.mark.parametrize("kafka", ["3.9.1", "4.3.1"])
def test_every_fault_of_the_demo_carries_its_proof(demo: Demo, kafka: str) -> None:
    steps = read_steps(RecordFolder(demo.records[kafka]))
    assert steps is not None
    assert [step.step for step in steps] == ["partition", "power-loss", "start", "heal"]
    assert all(step.effect_ns is not None and step.proof["probe"] == "ok" for step in steps)
    power_loss = steps[1].proof
    assert power_loss["logs"]["t-0"]["leo_before"] >= 1000
    assert power_loss["logs"]["t-0"]["leo_after"] == 0
    assert power_loss["lost_bytes"] > 0


def _essence(verdict: Verdict) -> object:
    """What two runs of one scenario have in common."""
    return (
        verdict.outcome,
        [(loss.topic, loss.committed, loss.cause, loss.count == verdict.counts.acked) for loss in verdict.losses],
        [(fall.topic, fall.cause, fall.to) for fall in verdict.regressions],
        sorted((anomaly.kind, anomaly.topic) for anomaly in verdict.anomalies),
        {one.name for one in verdict.properties if one.status == "violated"},
        verdict.coverage.get("elections-from-elr"),
    )


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.spark
def test_the_docker_runtime_comes_to_the_same_verdicts(demo: Demo, spark_if_needed: Spark, tmp_path: Path) -> None:
    before, notes = HostState.now(), io.StringIO()
    options = LaunchOptions(runs=tmp_path, runtime="docker")
    judged = in_process.run_and_judge(
        "last-replica-standing",
        "3.9.1",
        "4.3.1",
        options=options,
        spark=spark_if_needed,
        console=Console(file=notes, width=200),
    )
    assert len(judged) == 2
    for record, verdict in judged:
        manifest = read_manifest(RecordFolder(record))
        assert (manifest.runtime, manifest.power_loss_method) == ("docker", "fs-shutdown")
        assert f"image {manifest.host['image']} ({manifest.host['image_why']})" in notes.getvalue()
        assert manifest.host["image_id"].startswith("sha256:")
        assert _essence(verdict) == _essence(verdict_of(demo.records[manifest.kafka]))
        assert left_after(before, record.name, str(tmp_path)) == []


class UnreadRun(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended whose output nobody reads to its end."""

    exit_code: int
    errors: str
    record: Path


@pytest.fixture(scope="module")
def unread_run(tmp_path_factory: pytest.TempPathFactory) -> UnreadRun:
    """A run whose power loss is by truncate. The reader of its output goes after the first line."""
    runs = tmp_path_factory.mktemp("unread") / "runs"
    words = command("run", "last-replica-standing", "--kafka", "3.9.1", "--power-loss", "truncate", "--runs", runs)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.readline()
        run.stdout.close()
        # Its checksums come last in a record, when the cluster is down; what follows is judging.
        ended = lambda: run.poll() is not None or [*runs.glob(f"*/{SUMS}")]  # noqa: E731
        wait_until(ended, awaited="the end of the run", timeout_s=180, poll_s=0.1)
        HOST.lend()
        errors = run.stderr.read()
        exit_code = run.wait(180)
    [record] = records_in(runs)
    return UnreadRun(exit_code=exit_code, errors=errors, record=record)


@pytest.mark.slow
def test_a_run_goes_on_when_the_reader_of_its_output_is_gone(unread_run: UnreadRun) -> None:
    assert unread_run.exit_code == 0, unread_run.errors
    assert verdict_of(unread_run.record).outcome == "as-predicted"


@pytest.mark.slow
def test_the_truncate_method_loses_the_same_and_says_that_it_was_used(unread_run: UnreadRun) -> None:
    assert read_manifest(RecordFolder(unread_run.record)).power_loss_method == "truncate"
    verdict = verdict_of(unread_run.record)
    (loss,) = verdict.losses
    assert (loss.cause, loss.count) == ("last-replica-standing", verdict.counts.acked)
