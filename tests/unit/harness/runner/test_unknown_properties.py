"""A property that a release does not know: it ends a run before anything starts, and is only noted from a record."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest

from ebbtide.errors import UsageError
from ebbtide.releases.known_releases import KNOWN, is_known
from ebbtide.scenario import catalogue
from ebbtide.scenario.kafka_settings import KafkaSetting
from ebbtide.scenario.model import ClusterSpec, Scenario
from harness.runner import settings_check
from harness.runner.run import RunRequest, run_scenario
from harness.runner.settings_check import check_settings, unknown_properties_error

OLD, NEW = "log.message.downconversion.enable", "max.decompressed.message.bytes"
BOTH = ClusterSpec(broker_properties={OLD: "true", "num.io.threads": "2"}, controller_properties={NEW: "9"})


class Started(Exception):
    """The run has come to the step after the check."""


def of_release(kafka: str, cluster: ClusterSpec = BOTH) -> Scenario:
    return msgspec.structs.replace(catalogue.find("healthy"), kafka=(kafka,), cluster=cluster)


def ignored(kafka: str) -> list[str]:
    return [one.where for one in check_settings(of_release(kafka), Mock())]


def test_each_release_ignores_what_only_others_know() -> None:
    old, new = f"cluster.broker_properties.{OLD}", f"cluster.controller_properties.{NEW}"
    assert {kafka: ignored(kafka) for kafka in ("3.9.1", "4.3.1", "4.4.0")} == {
        "3.9.1": [new],
        "4.3.1": [old, new],
        "4.4.0": [old],
    }


@pytest.mark.parametrize("allowed", [False, True])
def test_it_ends_a_run_before_anything_is_made_and_is_noted_in_a_replay(
    allowed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.runner.run.installation_of", Mock(side_effect=Started))
    request = RunRequest(
        scenario=of_release("4.3.1"),
        kafka="4.3.1",
        seed=1,
        runs=tmp_path / "runs",
        allow_unknown_properties=allowed,
    )
    display = Mock()
    with pytest.raises(Started if allowed else UsageError) as caught:
        run_scenario(request, display)
    what = f"Kafka does not know {OLD}, {NEW}, and ignores them"
    said = [call.args[0] for call in display.note.call_args_list] if allowed else [str(caught.value).splitlines()[0]]
    assert what in said
    assert list(tmp_path.iterdir()) == []


def test_the_error_says_where_each_one_stands_and_why() -> None:
    error = unknown_properties_error(check_settings(of_release("4.3.1"), Mock()))
    assert error.where == f"cluster.broker_properties.{OLD}, cluster.controller_properties.{NEW}"
    assert [one.what.rpartition(": ")[2] for one in error.problems] == [
        "Kafka 4.0.0 removed it",
        "Kafka has it from 4.4.0 on",
    ]


def test_a_release_that_ebbtide_does_not_know_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [KafkaSetting("node", name, "int", "9.9.9", "9.9.9") for name in ("num.io.threads", NEW)]
    monkeypatch.setattr(settings_check, "defined_settings", lambda kafka, progress: own)
    assert ignored("9.9.9") == [f"cluster.broker_properties.{OLD}"]


@pytest.mark.parametrize("name", catalogue.names())
def test_every_release_of_a_shipped_scenario_knows_its_properties(name: str) -> None:
    scenario = catalogue.find(name)
    for kafka in scenario.kafka:
        assert check_settings(msgspec.structs.replace(scenario, kafka=(kafka,)), Mock()) == ()


def test_the_table_has_the_newest_known_release() -> None:
    assert is_known(KNOWN[-1].version)
    assert ignored(KNOWN[-1].version) == ignored("4.4.0")


def test_a_cluster_without_them_keeps_the_others_of_both_roles() -> None:
    both = {"a": "1", "b": "2"}
    cluster = ClusterSpec(brokers=4, broker_properties=both, controller_properties=both)
    left = cluster.without_properties({"cluster.broker_properties.a", "cluster.controller_properties.b"})
    assert (left.broker_properties, left.controller_properties) == ({"b": "2"}, {"a": "1"})
    assert left.brokers == 4
