"""Scenarios on the docker runtime: the local runtime's verdicts, whatever the daemon has besides or befalls it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container
from docker.types import IPAMConfig, IPAMPool
from host_state import HostState, left_after
from live.commands import Demo, WatchedCommand, ebbtide, records_in
from live.daemon_proxy import DaemonProxy

from cluster.host.containers import labels_of
from cluster.images import build_image, connect, find_image
from ebbtide.record.manifest import read_manifest
from ebbtide.record.verdict import Verdict, read_verdict

pytestmark = [pytest.mark.docker, pytest.mark.live]

DOCKER = ("--runtime", "docker")


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    with contextlib.closing(connect()) as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def foreign(client: docker.DockerClient) -> Iterator[Container]:
    """Someone else's container, on a network that takes the addresses which a cluster has in its own namespaces."""
    image = find_image(client, "3.9.1") or build_image(client, "3.9.1", lambda _: None)
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


def _verdict(record: Path) -> Verdict:
    verdict = read_verdict(record)
    assert verdict is not None
    return verdict


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
def test_last_replica_standing_has_the_same_verdicts_as_on_the_local_runtime(demo: Demo, tmp_path: Path) -> None:
    before = HostState.now()
    done = ebbtide("run", "last-replica-standing", "--kafka", "3.9.1,4.3.1", *DOCKER, "--runs", tmp_path, timeout_s=400)
    assert done.returncode == 0, done.stdout + done.stderr
    for record in records_in(tmp_path):
        manifest = read_manifest(record)
        assert (manifest.runtime, manifest.power_loss_method) == ("docker", "fs-shutdown")
        assert f"image {manifest.host['image']} ({manifest.host['image_why']})" in done.stdout
        assert manifest.host["image_id"].startswith("sha256:")
        assert _essence(_verdict(record)) == _essence(_verdict(demo.records[manifest.kafka]))
        assert left_after(before, record.name, str(tmp_path)) == []


@pytest.mark.slow
def test_nothing_is_found_where_nothing_was_broken(tmp_path: Path) -> None:
    done = ebbtide("run", "healthy", "--kafka", "3.9.1,4.3.1", *DOCKER, "--runs", tmp_path, timeout_s=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(records_in(tmp_path)) == 2
    for record in records_in(tmp_path):
        verdict = _verdict(record)
        assert verdict.outcome == "as-predicted"
        assert verdict.counts.acked >= 100_000
        assert verdict.anomalies == []


def test_after_sigkill_clean_removes_the_containers_and_all_else(tmp_path: Path) -> None:
    before = HostState.now()
    run = WatchedCommand(
        tmp_path / "out", "run", "last-replica-standing", "--kafka", "3.9.1", *DOCKER, "--runs", tmp_path / "runs"
    )
    assert run.signal_once_it_says("power-loss broker", signal.SIGKILL) == -signal.SIGKILL
    (record,) = records_in(tmp_path / "runs")
    assert f"container ebbtide-{record.name}-broker-1" in HostState.now().left_since(before, record.name)
    cleaned = ebbtide("clean")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert left_after(before, record.name, str(tmp_path)) == []
    assert ebbtide("analyze", record).returncode == 2


@pytest.mark.slow
def test_a_daemon_that_goes_away_is_one_error_and_what_it_alone_can_remove_is_left_to_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = HostState.now()
    proxy = DaemonProxy(tmp_path / "socket")
    proxy.open()
    try:
        monkeypatch.setenv("DOCKER_HOST", proxy.address)
        run = WatchedCommand(
            tmp_path / "out", "run", "last-replica-standing", "--kafka", "4.3.1", *DOCKER, "--runs", tmp_path / "runs"
        )
        assert run.once_it_says("partition broker", proxy.close) == 3
        assert run.text().count("error: ") == 1, run.text()
        assert "connection to the Docker daemon broke" in run.text()
        (record,) = records_in(tmp_path / "runs")
        assert read_manifest(record).status == "failed"
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
    done = ebbtide("run", "healthy", "--kafka", "4.3.1", *DOCKER, "--image", "ebbtide/kafka:3.9.1", "--runs", tmp_path)
    assert done.returncode == 3, done.stdout
    assert "does not hold Kafka 4.3.1" in done.stderr
    (record,) = records_in(tmp_path)
    assert read_manifest(record).status == "failed"
