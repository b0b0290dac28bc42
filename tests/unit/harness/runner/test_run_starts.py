"""How a run starts, what ends it before it begins, and what it leaves when it fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import evidence_builders as build
import msgspec
import pytest

import harness.runner.run as run_module
from cluster.host.bridge import address_of
from cluster.host.ledger import Ledger
from cluster.runtime.base import RuntimeSettings
from cluster.runtime.jvm import Installation
from cluster.runtime.local import LocalRuntime
from cluster.runtime.properties import plan_cluster
from ebbtide.errors import HarnessError, UsageError
from ebbtide.java import Java
from ebbtide.logs.segments import METADATA_FOLDER
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.scenario import catalogue
from ebbtide.scenario.kafka_settings import KafkaSetting
from ebbtide.scenario.model import ClusterSpec, Quorum, Scenario
from ebbtide.waiting import WaitExpired
from harness.runner import session, settings_check
from harness.runner.display import Display
from harness.runner.run import RunRequest, run_scenario
from harness.runner.session import Draws
from harness.runner.settings_check import check_settings

CONTROLLERS = (100, 101, 102)
BROKERS = (1, 2, 3)


@pytest.mark.parametrize(
    ("quorum", "groups"), [("dynamic", [CONTROLLERS, BROKERS]), ("static", [(*CONTROLLERS, *BROKERS)])]
)
def test_brokers_of_a_dynamic_quorum_start_after_its_controllers_are_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quorum: Quorum, groups: list[tuple[int, ...]]
) -> None:
    monkeypatch.setattr(session, "Workload", lambda **_: Mock(**{"create_topics.return_value": ()}))
    monkeypatch.setattr(session, "ForkedClients", Mock())
    cluster = ClusterSpec(controllers=3, brokers=3, quorum=quorum)
    scenario = msgspec.structs.replace(catalogue.find("healthy"), cluster=cluster, kafka=("4.3.1",))
    runtime = Mock(
        nodes=plan_cluster(cluster, address_of).nodes,
        warning=None,
        **{"data_dir.side_effect": lambda node: tmp_path / str(node)},
    )
    made = session.Session(scenario, Draws(assignments={}), runtime, "run-1", RecordFolder(tmp_path), Mock())
    made.open(tap_all=True)
    calls = [(name, set(args[0])) for name, args, _ in runtime.method_calls if name in ("start", "wait_ready")]
    assert calls == [(name, set(group)) for group in groups for name in ("start", "wait_ready")]


@pytest.mark.parametrize("quorum", ["dynamic", "static"])
def test_controllers_of_a_dynamic_quorum_are_ready_once_one_of_them_is_active(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quorum: Quorum
) -> None:
    java = Java(executable=Path("/java"), version="17", major=17)
    settings = RuntimeSettings(
        spec=ClusterSpec(controllers=3, brokers=1, quorum=quorum),
        kafka="4.3.1",
        folder=tmp_path / "run",
        ledger=Ledger.open("run", tmp_path, ledgers=tmp_path / "ledgers"),
        power_loss_method="truncate",
    )
    runtime = LocalRuntime(Installation(kafka="4.3.1", jars=(), folder=tmp_path, java=java), settings)
    monkeypatch.setattr(runtime, "pid", lambda _node: 7)
    monkeypatch.setattr(runtime, "_accepts_connections", lambda _node: True)
    log = runtime.data_dir(100) / METADATA_FOLDER
    uncommitted = (build.leader_change(0, 100), build.voters(1, dict.fromkeys(CONTROLLERS, "A")))
    build.write_log(log, *uncommitted)
    try:
        if quorum == "dynamic":
            with pytest.raises(WaitExpired, match="no controller is active yet"):
                runtime.wait_ready(CONTROLLERS, 0.1)
            build.write_log(log, *uncommitted, build.metadata_batch(2, build.feature("metadata.version", 30)))
        runtime.wait_ready(CONTROLLERS, 0.1)
    finally:
        runtime.close()


# A run that fails says where its record is: what was recorded may say why, and can be judged.


class NotedDisplay(Display):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Keep a note."""
        self.notes.append(text)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the folder of runs, which take nothing of the host."""
    open_ledger = Ledger.open
    monkeypatch.setattr(run_module._Run, "_ensure_class_archives", lambda _: None)
    monkeypatch.setattr(Ledger, "open", lambda run, record: open_ledger(run, record, ledgers=tmp_path / "ledgers"))
    return tmp_path / "runs"


def last_note(runs: Path, ended: type[BaseException]) -> str:
    """Return the last note of a run that ends with this error."""
    display = NotedDisplay()
    with pytest.raises(ended):
        run_scenario(RunRequest(scenario=catalogue.find("healthy"), kafka="4.3.1", seed=1, runs=runs), display)
    return display.notes[-1]


def test_a_run_that_fails_names_its_record(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise HarnessError("no cluster can start here")

    monkeypatch.setattr(run_module, "open_runtime", refuse)
    said = last_note(here, HarnessError)
    (record,) = here.iterdir()
    assert said == f"failed; what was recorded is in {record}"
    assert read_manifest(RecordFolder(record)).status == "failed"


@pytest.mark.parametrize("journals", [[], ["producer-1.journal"]], ids=["before", "after"])
def test_only_a_run_with_clients_is_to_be_judged_after_ctrl_c(
    here: Path, monkeypatch: pytest.MonkeyPatch, journals: list[str]
) -> None:
    def interrupt(_: object, settings: RuntimeSettings) -> None:
        for journal in journals:
            (settings.folder / "journal").mkdir(exist_ok=True)
            (settings.folder / "journal" / journal).touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(run_module, "open_runtime", interrupt)
    said = last_note(here, KeyboardInterrupt)
    (record,) = here.iterdir()
    nothing = f"nothing was sent, so there is nothing to judge; what was recorded is in {record}"
    assert said == (f"to judge the run so far: ebbtide analyze {record}" if journals else nothing)
    assert read_manifest(RecordFolder(record)).status == "interrupted"


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


def test_a_release_that_ebbtide_does_not_know_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [KafkaSetting("node", name, "int", "9.9.9", "9.9.9") for name in ("num.io.threads", NEW)]
    monkeypatch.setattr(settings_check, "defined_settings", lambda kafka, progress: own)
    assert ignored("9.9.9") == [f"cluster.broker_properties.{OLD}"]


@pytest.mark.parametrize("name", catalogue.names())
def test_every_release_of_a_shipped_scenario_knows_its_properties(name: str) -> None:
    scenario = catalogue.find(name)
    for kafka in scenario.kafka:
        assert check_settings(msgspec.structs.replace(scenario, kafka=(kafka,)), Mock()) == ()


def test_a_cluster_without_them_keeps_the_others_of_both_roles() -> None:
    both = {"a": "1", "b": "2"}
    cluster = ClusterSpec(brokers=4, broker_properties=both, controller_properties=both)
    left = cluster.without_properties({"cluster.broker_properties.a", "cluster.controller_properties.b"})
    assert (left.broker_properties, left.controller_properties) == ({"b": "2"}, {"a": "1"})
    assert left.brokers == 4
