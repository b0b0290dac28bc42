"""What the pytest plugin demands of its runner, the stand-in and the real one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ebbtide.errors import UsageError
from ebbtide.pytest_plugin.chaos_scenario import chaos_scenario
from ebbtide.pytest_plugin.kafka_cluster import Unproven
from ebbtide.pytest_plugin.run_record import CommandFailed
from ebbtide.pytest_plugin.runner import CommandRunner
from ebbtide.pytest_plugin.settings import Settings
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest

KAFKA = "4.3.1"


def abilities_have_names_and_reasons(runner: CommandRunner) -> None:
    """The runner lists the abilities of this host."""
    found = {one.name: one for one in runner.abilities()}
    assert {"java", "docker"} <= found.keys()
    assert all(one.lacking != "" for one in found.values())


def an_unknown_scenario_is_a_mistake(runner: CommandRunner, settings: Settings) -> None:
    """With the command's own words, but without the command."""
    with pytest.raises(CommandFailed, match=r"^unknown scenario") as caught:
        runner.run_scenario("no-such-scenario", KAFKA, settings, keep=False)
    assert caught.value.mistake
    assert "exit code" not in str(caught.value)


def an_unknown_release_is_a_mistake(runner: CommandRunner, kafka: str) -> None:
    """Only the command can find out whether a release exists: it asks Maven, unless it is too old."""
    with pytest.raises(CommandFailed, match=re.escape(kafka)) as caught:
        runner.fetch(kafka)
    assert caught.value.mistake


def a_chaos_run_is_judged_with_its_steps(runner: CommandRunner, settings: Settings) -> Path:
    """The run is inconclusive because a step never fires. Returns its record."""
    orders = {"replication_factor": 1, "min_isr": 1}
    parts = {"cluster": {"brokers": 1}, "topics": {"orders": orders}, "producers": [], "consumers": []}
    chaos, lease = runner.open_chaos(chaos_scenario(parts, KAFKA, None), KAFKA, settings, keep=False)
    try:
        assert (chaos.topics, chaos.kafka) == (("orders",), KAFKA)
        killed = chaos.kill("broker(1)")
        assert (killed.index, killed.step) == (0, "kill")
        assert killed.effect_ns is not None
        with pytest.raises(UsageError):
            chaos.kill("broker(9)")
        with pytest.raises(Unproven, match=r"inconclusive: step 1 \(wait\) never fired: waited"):
            chaos.wait(leader_is={"partition": "orders-0", "broker": "none"}, deadline_s=0.2)
        run = runner.judge_chaos(chaos, lease)
    finally:
        runner.close(lease)
    assert (run.path, run.outcome, run.kafka, run.seed) == (chaos.record, "inconclusive", KAFKA, settings.seed)
    assert run.verdict.why
    assert run.fidelity is None
    return run.path


def a_chaos_run_can_be_replayed(runner: CommandRunner, settings: Settings, record: Path) -> None:
    """The replay is inconclusive, as its record is."""
    again = runner.replay(record, settings)
    assert (again.path.parent, again.outcome, again.kafka) == (settings.runs, "inconclusive", KAFKA)
    assert read_manifest(RecordFolder(again.path)).replay_of == read_manifest(RecordFolder(record)).run_id
    assert 0 < (again.fidelity or 0) <= 1
