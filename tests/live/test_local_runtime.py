"""A real cluster on the local runtime: every fault proven on it, and nothing left on the host afterwards."""

from __future__ import annotations

import gzip
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_state import HostState

from analysis.evidence.segments import leo_of
from faults import disk, network, process
from faults.base import Effect
from harness.errors import HarnessError
from harness.host.writeback import HELD
from harness.ledger import Ledger
from harness.runtime.base import CLIENTS, PowerLossMethod
from harness.runtime.jvm import ensure_class_archive, installation_of
from harness.runtime.local import LocalRuntime
from harness.scenario.model import ClusterSpec
from harness.waiting import wait_until

pytestmark = pytest.mark.live

READY_S = 60.0
CONTROLLER = 100


class Cluster:
    """A runtime and the run it belongs to."""

    def __init__(self, kafka: str, folder: Path, *, method: PowerLossMethod = "fs-shutdown", **wished: str) -> None:
        self.run_id = f"live-{os.getpid()}-{os.urandom(3).hex()}"
        self.folder = folder
        self.before = HostState.now()
        self.ledger = Ledger.open(self.run_id, folder, ledgers=folder / "ledger")
        installation = installation_of(kafka)
        ensure_class_archive(installation)
        self.runtime = LocalRuntime(
            spec=ClusterSpec(broker_properties=wished),
            installation=installation,
            folder=folder,
            ledger=self.ledger,
            power_loss_method=method,
        )

    def up(self) -> LocalRuntime:
        """Prepared, started and ready."""
        self.runtime.prepare()
        self.runtime.start(list(self.runtime.nodes))
        self.runtime.wait_ready(list(self.runtime.nodes), READY_S)
        return self.runtime

    def left(self) -> list[str]:
        """What of this run is on the host."""
        return HostState.now().left_since(self.before, self.run_id, str(self.folder))


@pytest.fixture(scope="module", params=["3.9.1", "4.3.1"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(request.param, tmp_path_factory.mktemp("cluster"))
    try:
        made.up()
        yield made
    finally:
        made.runtime.close()
    assert made.left() == []


@pytest.fixture
def runtime(cluster: Cluster) -> LocalRuntime:
    return cluster.runtime


def _proven(effect: Effect) -> Effect:
    assert effect.effect_ns is not None, effect.why
    return effect


def _back(runtime: LocalRuntime, node: int) -> None:
    _proven(process.start(runtime, node))
    runtime.wait_ready([node], READY_S)


def test_each_node_is_a_process_of_its_own_in_a_namespace_of_its_own(runtime: LocalRuntime) -> None:
    pids = [runtime.pid(node) for node in runtime.nodes]
    namespaces = {Path(f"/proc/{pid}/ns/net").readlink() for pid in (*pids, "self")}
    mounts = {Path(f"/proc/{pid}/ns/mnt").readlink() for pid in (*pids, "self")}
    assert None not in pids
    assert len(namespaces) == len(runtime.nodes) + 1
    assert len(mounts) == 1


def test_a_client_is_in_the_client_namespace_and_in_the_ledger(cluster: Cluster) -> None:
    client = cluster.runtime.start_client(["sleep", "300"], name="client", output=cluster.folder / "logs/client.log")
    try:
        wait_until(
            lambda: Path(f"/proc/{client.pid}/cmdline").read_bytes().startswith(b"sleep"), awaited="it", timeout_s=5
        )
        namespace = Path(f"/proc/{client.pid}/ns/net").stat().st_ino
        assert namespace == Path(f"/run/netns/ebbtide-{cluster.run_id}-clients").stat().st_ino
        assert f"process {client.pid} (client)" in [entry.describe() for entry in cluster.ledger.standing()]
    finally:
        assert client.kill() == -signal.SIGKILL


def test_write_back_is_held_while_the_cluster_lasts(runtime: LocalRuntime) -> None:
    for name, value in HELD.items():
        assert Path("/proc/sys/vm", name).read_text().strip() == value


def test_a_killed_broker_comes_back(runtime: LocalRuntime) -> None:
    effect = _proven(process.kill(runtime, 1))
    assert effect.proof["exit_status"] == -signal.SIGKILL
    assert runtime.pid(1) is None
    _back(runtime, 1)


def test_a_cleanly_stopped_broker_leaves_its_clean_shutdown_file(runtime: LocalRuntime) -> None:
    _proven(process.stop(runtime, 2))
    assert (runtime.data_dir(2) / ".kafka_cleanshutdown").exists()
    _back(runtime, 2)


def test_a_paused_broker_is_stopped_and_a_resumed_one_runs(runtime: LocalRuntime) -> None:
    pid = runtime.pid(3)
    _proven(process.pause(runtime, 3))
    _proven(process.resume(runtime, 3))
    assert runtime.pid(3) == pid
    runtime.wait_ready([3], READY_S)


@pytest.mark.parametrize("node", [1, CONTROLLER])
def test_a_node_that_lost_power_comes_back_with_what_was_fsynced(runtime: LocalRuntime, node: int) -> None:
    effect = disk.power_loss(runtime, node)
    metadata = effect.proof["logs"]["__cluster_metadata-0"]
    assert effect.proof["volume_down"]
    assert leo_of(runtime.data_dir(node) / "__cluster_metadata-0") == metadata["leo_after"]
    if node == CONTROLLER:
        # KRaft fsyncs what a controller has committed.
        assert metadata["leo_after"] > 0
    else:
        assert _proven(effect).proof["lost_bytes"] > 0
    _back(runtime, node)


def test_a_partition_holds_and_heals(runtime: LocalRuntime) -> None:
    _proven(network.partition(runtime, network.between([[1], [2, 3, CONTROLLER, CLIENTS]])))
    _proven(network.heal(runtime))
    runtime.wait_ready([1, 2, 3], READY_S)


def test_a_cut_that_is_not_applied_is_not_proven(runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime.network, "cut", lambda cuts: None)
    effect = network.partition(runtime, network.one_way([1], [2]))
    assert effect.effect_ns is None
    assert effect.why == "packets still pass 1>2"


def test_a_running_node_is_not_started_twice(runtime: LocalRuntime) -> None:
    with pytest.raises(HarnessError, match="broker-1 runs already"):
        runtime.start([1])


def test_a_node_that_dies_at_start_is_reported_with_the_end_of_its_log(runtime: LocalRuntime) -> None:
    _proven(process.stop(runtime, 1))
    formatted = runtime.data_dir(1) / "meta.properties"
    aside = formatted.rename(formatted.with_name("aside"))
    runtime.start([1])
    with pytest.raises(HarnessError, match=r"broker-1 ended before it was ready \(exit code 1\)") as failure:
        runtime.wait_ready([1], READY_S)
    assert "meta.properties" in str(failure.value)
    aside.rename(formatted)
    _back(runtime, 1)


def test_a_property_that_kafka_refuses_is_reported_before_anything_starts(tmp_path: Path) -> None:
    cluster = Cluster("4.3.1", tmp_path, **{"num.io.threads": "-1"})
    try:
        with pytest.raises(HarnessError, match="Invalid value -1 for configuration"):
            cluster.runtime.prepare()
    finally:
        cluster.runtime.close()
    assert cluster.left() == []


def test_truncating_takes_what_was_never_fsynced_and_the_logs_are_kept(tmp_path: Path) -> None:
    cluster = Cluster("3.9.1", tmp_path, method="truncate")
    try:
        runtime = cluster.up()
        loss = runtime.lose_power(1)
        assert loss.method == "truncate"
        assert loss.volume_down
        _back(runtime, 1)
    finally:
        cluster.runtime.close()
        cluster.runtime.close()
    assert cluster.left() == []
    assert not (tmp_path / "cluster").exists()
    with gzip.open(tmp_path / "logs" / "broker-1.log.gz", "rt") as log:
        assert log.read().count("Kafka Server started") == 2
