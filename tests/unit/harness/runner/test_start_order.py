"""In a dynamic quorum, brokers start once the first voters are committed."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import evidence_builders as build
import msgspec
import pytest

from cluster.host.bridge import address_of
from cluster.host.ledger import Ledger
from cluster.runtime.jvm import Installation
from cluster.runtime.local import LocalRuntime
from cluster.runtime.properties import plan_cluster
from ebbtide.java import Java
from ebbtide.logs.segments import METADATA_FOLDER
from ebbtide.record.folder import RecordFolder
from ebbtide.scenario import catalogue
from ebbtide.scenario.model import ClusterSpec, Quorum
from ebbtide.waiting import WaitExpired
from harness.runner import session
from harness.runner.draws import Draws

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
    runtime = LocalRuntime(
        spec=ClusterSpec(controllers=3, brokers=1, quorum=quorum),
        installation=Installation(
            kafka="4.3.1",
            jars=(),
            folder=tmp_path,
            java=Java(executable=Path("/java"), version="17", major=17),
        ),
        folder=tmp_path / "run",
        ledger=Ledger.open("run", tmp_path, ledgers=tmp_path / "ledgers"),
        power_loss_method="truncate",
    )
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
