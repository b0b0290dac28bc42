"""What every runtime owes its callers, asked of each: the same clusters, faults and proofs, and nothing left behind."""

from __future__ import annotations

import gzip
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from host_turn import HOST
from live.clusters import CONTROLLER, READY_S, Cluster
from quick import quick_first

from cluster.host.namespaces import Cut
from cluster.host.writeback import HELD_SETTINGS
from cluster.runtime.base import PowerLossMethod
from cluster.runtime.cluster import Runtime
from cluster.runtime.jvm import CLEAN_EXIT_CODES
from ebbtide.errors import HarnessError, UsageError
from ebbtide.logs.segments import leo_of
from ebbtide.waiting import wait_until
from faults import disk, process
from faults.base import Effect

pytestmark = pytest.mark.live


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A runtime to be tried, and the release to try it with."""

    runtime: Literal["local", "docker"]
    method: PowerLossMethod
    kafka: str


KINDS = (
    pytest.param(Kind(runtime="local", method="fs-shutdown", kafka="3.9.1"), id="local"),
    pytest.param(Kind(runtime="local", method="truncate", kafka="4.3.1"), id="local-truncate", marks=pytest.mark.slow),
    pytest.param(
        Kind(runtime="docker", method="fs-shutdown", kafka="4.3.1"),
        id="docker",
        marks=[pytest.mark.docker, pytest.mark.slow],
    ),
)


@pytest.fixture(scope="module", params=KINDS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    kind: Kind = request.param
    with HOST.held():
        made = Cluster(kind.runtime, kind.kafka, tmp_path_factory.mktemp("cluster"), method=kind.method)
        try:
            made.bring_up()
            yield made
        finally:
            made.runtime.close()
            made.runtime.close()
        assert made.left_after() == []
    assert not (made.folder / "cluster").exists()
    with gzip.open(made.folder / "logs" / "broker-1.log.gz", "rt") as log:
        said = log.read()
    assert said.count("Kafka Server started") > 1
    # A name that cannot be looked up costs seconds at each start; the names of this host are not the tests' business.
    assert kind.runtime == "local" or "UnknownHostException" not in said


@pytest.fixture
def runtime(cluster: Cluster) -> Runtime:
    return cluster.runtime


def _proven(effect: Effect) -> Effect:
    assert effect.effect_ns is not None, effect.why
    return effect


def _bring_back(runtime: Runtime, node: int) -> None:
    _proven(process.start(runtime, node))
    runtime.wait_ready([node], READY_S)


def test_each_node_is_a_process_of_its_own_in_a_namespace_of_its_own(runtime: Runtime) -> None:
    pids = [runtime.pid(node) for node in runtime.nodes]
    namespaces = {Path(f"/proc/{pid}/ns/net").readlink() for pid in (*pids, "self")}
    assert None not in pids
    assert len(namespaces) == len(runtime.nodes) + 1
    for pid in pids:
        assert b"kafka.Kafka" in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_no_node_holds_a_copy_of_anothers_volume(runtime: Runtime) -> None:
    if runtime.power_loss_method == "truncate":
        return
    here = Path("/proc/self/ns/mnt").readlink()
    for node, other in ((1, 2), (2, 1)):
        mounts = Path(f"/proc/{runtime.pid(node)}/mountinfo").read_text()
        if Path(f"/proc/{runtime.pid(node)}/ns/mnt").readlink() != here:
            assert str(runtime.data_dir(node).parent) in mounts
            assert str(runtime.data_dir(other).parent) not in mounts


def test_a_client_is_in_the_client_namespace_and_in_the_ledger(cluster: Cluster) -> None:
    client = cluster.runtime.start_client(["sleep", "300"], name="client", output=cluster.folder / "logs/client.log")
    try:
        wait_until(
            lambda: Path(f"/proc/{client.pid}/cmdline").read_bytes().startswith(b"sleep"), awaited="it", timeout_s=60
        )
        namespace = Path(f"/proc/{client.pid}/ns/net").stat().st_ino
        assert namespace == Path(f"/run/netns/ebbtide-{cluster.run_id}-clients").stat().st_ino
        assert f"process {client.pid} (client)" in [entry.describe() for entry in cluster.ledger.entries()]
    finally:
        assert client.kill() == -signal.SIGKILL


def test_write_back_is_held_where_unsynced_pages_are_to_be_lost(runtime: Runtime) -> None:
    for name, value in HELD_SETTINGS.items():
        held = Path("/proc/sys/vm", name).read_text().strip() == value
        assert held == (runtime.power_loss_method == "fs-shutdown")


@pytest.mark.slow
def test_a_killed_broker_comes_back_as_the_same_node(runtime: Runtime) -> None:
    identity = (runtime.data_dir(1) / "meta.properties").read_text()
    pid = runtime.pid(1)
    effect = _proven(process.kill(runtime, 1))
    assert effect.proof["exit_status"] == -signal.SIGKILL == runtime.exit_status(1)
    assert runtime.pid(1) is None
    _bring_back(runtime, 1)
    assert runtime.pid(1) not in (None, pid)
    assert runtime.exit_status(1) is None
    assert (runtime.data_dir(1) / "meta.properties").read_text() == identity


@pytest.mark.slow
def test_a_cleanly_stopped_broker_leaves_its_clean_shutdown_file(runtime: Runtime) -> None:
    _proven(process.stop(runtime, 2))
    assert runtime.exit_status(2) in CLEAN_EXIT_CODES
    assert (runtime.data_dir(2) / ".kafka_cleanshutdown").exists()
    _bring_back(runtime, 2)


@pytest.mark.parametrize("node", quick_first([CONTROLLER, 1]))
def test_a_node_that_lost_power_comes_back_with_what_was_fsynced(runtime: Runtime, node: int) -> None:
    effect = disk.power_loss(runtime, node)
    metadata = effect.proof["logs"]["__cluster_metadata-0"]
    assert effect.effect_ns is not None
    # By truncate there is no volume to ask.
    seen = [effect.proof.get(name) for name in ("volume_down", "unsynced_there", "unsynced_gone")]
    assert seen == ([True] * 3 if runtime.power_loss_method == "fs-shutdown" else [None] * 3)
    assert runtime.exit_status(node) == -signal.SIGKILL
    assert leo_of(runtime.data_dir(node) / "__cluster_metadata-0") == metadata["leo_after"]
    if node == CONTROLLER:
        # KRaft fsyncs what a controller has committed.
        assert metadata["leo_after"] > 0
    elif runtime.power_loss_method == "fs-shutdown":
        assert _proven(effect).proof["lost_bytes"] > 0
    _bring_back(runtime, node)


def test_a_cut_is_one_way_and_outlasts_a_restart_of_the_node(runtime: Runtime) -> None:
    there, back = Cut(source=1, target=2), Cut(source=2, target=1)
    runtime.network.cut([there])
    try:
        assert runtime.network.passing_pairs([there, back]) == {back}
        runtime.kill(1)
        assert runtime.network.passing_pairs([there, back]) == {back}
        runtime.start([1])
        # At once, before the node has spoken and made itself known.
        assert runtime.network.passing_pairs([back]) == {back}
        assert runtime.network.passing_pairs([there, back]) == {back}
        assert runtime.network.dropped_packets()[there] > 0
    finally:
        runtime.network.heal()
    assert runtime.network.passing_pairs([there, back]) == {there, back}
    runtime.wait_ready([1, 2], READY_S)


def test_a_node_that_dies_at_start_is_reported_with_the_end_of_its_log(runtime: Runtime) -> None:
    _proven(process.stop(runtime, 1))
    formatted = runtime.data_dir(1) / "meta.properties"
    aside = formatted.rename(formatted.with_name("aside"))
    runtime.start([1])
    with pytest.raises(HarnessError, match=r"broker-1 ended before it was ready \(exit code 1\)") as failure:
        runtime.wait_ready([1], READY_S)
    assert "meta.properties" in str(failure.value)
    aside.rename(formatted)
    _bring_back(runtime, 1)


@pytest.mark.parametrize("name", ["local", pytest.param("docker", marks=pytest.mark.docker)])
def test_a_property_that_kafka_refuses_is_reported_before_anything_starts(
    name: Literal["local", "docker"], tmp_path: Path
) -> None:
    cluster = Cluster(name, "4.3.1", tmp_path, **{"num.io.threads": "-1"})
    try:
        with pytest.raises(UsageError, match=r"Kafka refuses num\.io\.threads = -1: Value must be at least 1"):
            cluster.runtime.prepare()
    finally:
        cluster.runtime.close()
    assert cluster.left_after() == []


def test_what_stands_of_a_run_is_seen(cluster: Cluster) -> None:
    left = " ".join(cluster.leftovers())
    assert f"namespace ebbtide-{cluster.run_id}-switch" in left
    assert ("container" in left) == (cluster.runtime.name == "docker")
