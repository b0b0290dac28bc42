"""Scenarios on the docker runtime: the local runtime's verdicts, whatever the daemon has besides or befalls it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import docker
import pytest
from docker.models.containers import Container
from docker.types import IPAMConfig, IPAMPool
from host_state import HostState, left_after
from live.commands import WatchedCommand, ebbtide, records_in
from live.daemon_proxy import DaemonProxy
from live.in_process import judge, run_and_judge

from cluster.host.containers import connect, labels_of
from cluster.images.build import build_image
from cluster.images.find import find_image
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from harness.runner.launch import LaunchOptions

if TYPE_CHECKING:
    from analysis.items.on_spark import Spark

pytestmark = [pytest.mark.docker, pytest.mark.live]

DOCKER = ("--runtime", "docker")
KAFKA = "4.3.1"
"""The release of all images that `make test` builds: a build takes 20 s."""


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    with contextlib.closing(connect()) as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def foreign(client: docker.DockerClient) -> Iterator[Container]:
    """Someone else's container, on a network that takes the addresses which a cluster has in its own namespaces."""
    image = find_image(client, KAFKA) or build_image(client, KAFKA, lambda _: None)
    name = f"foreign-{os.getpid()}"
    pool = IPAMPool(subnet="10.99.0.0/24", gateway="10.99.0.254")
    taken = client.networks.create(name, driver="bridge", ipam=IPAMConfig(pool_configs=[pool]))
    container = client.containers.run(
        image.id, entrypoint=["/bin/sh", "-c", "sleep 3600"], command=[], name=name, network=name, detach=True
    )
    try:
        yield container
        container.reload()
        assert container.status == "running", "a run or its cleaning took what is not its own"
    finally:
        container.remove(force=True)
        taken.remove()


@pytest.mark.slow
@pytest.mark.spark
def test_nothing_is_found_where_nothing_was_broken(spark_if_needed: Spark, tmp_path: Path) -> None:
    options = LaunchOptions(runs=tmp_path, runtime="docker")
    found = run_and_judge("healthy", "3.9.1", "4.3.1", options=options, spark=spark_if_needed)
    assert len(found) == 2
    for record, verdict in found:
        assert read_manifest(RecordFolder(record)).runtime == "docker"
        assert verdict.outcome == "as-predicted", verdict.why
        assert verdict.counts.acked >= 100_000
        assert verdict.anomalies == []


@pytest.mark.spark
def test_after_sigkill_clean_removes_the_containers_and_all_else(spark_if_needed: Spark, tmp_path: Path) -> None:
    before = HostState.now()
    words = ["run", "last-replica-standing", "--kafka", KAFKA, *DOCKER, "--no-judge", "--runs", tmp_path / "runs"]
    run = WatchedCommand(tmp_path / "out", *words)
    assert run.signal_once_it_says("power-loss broker", signal.SIGKILL) == -signal.SIGKILL
    (record,) = records_in(tmp_path / "runs")
    assert f"container ebbtide-{record.name}-broker-1" in HostState.now().left_since(before, record.name)
    cleaned = ebbtide("clean")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert left_after(before, record.name, str(tmp_path)) == []
    [(_, verdict)] = judge([record], spark_if_needed)
    assert verdict.outcome == "inconclusive", verdict.why


@pytest.mark.slow
def test_a_daemon_that_goes_away_is_one_error_and_what_it_alone_can_remove_is_left_to_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = HostState.now()
    proxy = DaemonProxy(tmp_path / "socket")
    proxy.open()
    try:
        monkeypatch.setenv("DOCKER_HOST", proxy.address)
        words = ["run", "last-replica-standing", "--kafka", KAFKA, *DOCKER, "--no-judge", "--runs", tmp_path / "runs"]
        run = WatchedCommand(tmp_path / "out", *words)
        assert run.once_it_says("partition broker", proxy.close) == 3
        assert run.text().count("error: ") == 1, run.text()
        assert "connection to the Docker daemon broke" in run.text()
        (record,) = records_in(tmp_path / "runs")
        assert read_manifest(RecordFolder(record)).status == "failed"
        monkeypatch.undo()
        left = HostState.now().left_since(before, record.name)
        assert {thing.split()[0] for thing in left} == {"container"}, left
        in_vain = ebbtide("clean")
        assert (in_vain.returncode, in_vain.stderr.count("NOT undone")) == (3, len(left)), in_vain.stderr
    finally:
        # Also when the test fails: what only this daemon can remove would stay for all tests to come.
        proxy.open()
        cleaned = ebbtide("clean")
        proxy.close()
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert left_after(before, record.name) == []


def test_a_container_whose_ledger_is_gone_is_found_by_its_label_and_others_are_not(
    client: docker.DockerClient, foreign: Container
) -> None:
    def make(name: str, **changes: str) -> str:
        client.containers.create(foreign.image, name=name, labels={**labels_of(name), **changes}, network_mode="none")
        return name

    mine = make(f"of-a-live-run-{os.getpid()}")
    dead = make(f"of-a-dead-run-{os.getpid()}", **{"org.ebbtide.started": "another-boot/1"})
    try:
        assert f"{dead}: undone: container {dead}" in ebbtide("clean").stdout
        names = [container.name for container in client.containers.list(all=True)]
        assert dead not in names
        assert {mine, foreign.name} <= set(names)
    finally:
        for name in (mine, dead):
            with contextlib.suppress(docker.errors.NotFound):
                client.containers.get(name).remove(force=True)


def test_an_image_of_another_release_is_refused_before_anything_starts(tmp_path: Path) -> None:
    done = ebbtide(
        "run", "healthy", "--kafka", "3.9.1", *DOCKER, "--image", f"ebbtide/kafka:{KAFKA}", "--runs", tmp_path
    )
    assert done.returncode == 3, done.stdout
    assert "does not hold Kafka 3.9.1" in done.stderr
    (record,) = records_in(tmp_path)
    assert read_manifest(RecordFolder(record)).status == "failed"
