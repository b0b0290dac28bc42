"""An image is built from jars and this host's Java, works, and leaves nothing but itself on the daemon."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from docker import DockerClient
from live.commands import ebbtide

from cluster.host.containers import connect
from cluster.images.build import build_image
from cluster.images.find import CLASS_ARCHIVE, IS_KAFKA, RELEASE, find_image
from cluster.jars.releases import jars_of
from ebbtide.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.docker]

KAFKA = "4.3.1"
MEGABYTE = 1_000_000

NODE = {
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_NODE_ID": "1",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@127.0.0.1:9093",
    "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "KAFKA_OPTS": "-Xlog:class+load:file=/out/loaded",
}


@pytest.fixture(scope="module")
def client() -> Iterator[DockerClient]:
    with closing(connect()) as client:
        yield client


@pytest.fixture(scope="module")
def image(client: DockerClient) -> str:
    return build_image(client, KAFKA, lambda text: None).reference


def _left_by_builds(client: DockerClient) -> list[str]:
    """Untagged images and containers that builds made."""
    images = client.images.list(filters={"dangling": True, "label": IS_KAFKA})
    containers = client.api.containers(all=True, filters={"label": IS_KAFKA})
    return [str(image.id) for image in images] + [
        container["Id"] for container in containers if CLASS_ARCHIVE not in container["Labels"]
    ]


def test_a_built_image_is_small_and_found_and_nothing_else_is_left(client: DockerClient, image: str) -> None:
    found = find_image(client, KAFKA, image)
    assert found is not None
    assert found.class_archive
    assert client.images.get(image).attrs["Size"] < 200 * MEGABYTE
    assert _left_by_builds(client) == []


@pytest.mark.slow
def test_a_second_build_is_the_same_image(client: DockerClient, image: str) -> None:
    before = client.images.get(image).id
    assert build_image(client, KAFKA, lambda text: None).id == before


def test_a_container_starts_a_node_from_its_environment_with_the_class_archive(
    client: DockerClient, image: str, tmp_path: Path
) -> None:
    container = client.containers.run(
        image, detach=True, network_mode="none", environment=NODE, volumes=[f"{tmp_path}:/out"]
    )
    try:
        wait_until(
            lambda: b"Kafka Server started" in container.logs(),
            awaited="the node to start",
            timeout_s=60,
            last_seen=lambda: container.logs(tail=5).decode(),
            poll_s=0.2,
        )
        # Read through a volume: from a chroot `docker exec` enters the host's root, not the container's.
        assert (tmp_path / "loaded").read_text().count("shared objects file (top)") > 4000
        container.stop(timeout=30)
        # 143: ended by SIGTERM, by its own hand; 137 would be the daemon's SIGKILL.
        assert container.wait()["StatusCode"] == 143
    finally:
        container.remove(force=True, v=True)


@pytest.mark.slow
def test_an_interrupted_build_leaves_nothing(client: DockerClient, tmp_path: Path) -> None:
    # A release of a number that nobody has: an image of a real one may be in use.
    shutil.copytree(jars_of(KAFKA)[0].parents[1], tmp_path / "kafka" / "9.9.8", copy_function=os.link)
    listing = tmp_path / "kafka/9.9.8/release.json"
    text = listing.read_text()
    listing.unlink()
    listing.write_text(text.replace(f'"version": "{KAFKA}"', '"version": "9.9.8"'))
    build = subprocess.Popen(
        [sys.executable, "-m", "ebbtide", "kafka", "image", "build", "9.9.8"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "EBBTIDE_CACHE": str(tmp_path)},
    )
    with build:
        wait_until(
            lambda: client.api.containers(filters={"label": f"{RELEASE}=9.9.8", "status": "running"}),
            awaited="the build to run its node",
            timeout_s=120,
            poll_s=0.1,
        )
        build.send_signal(signal.SIGTERM)
        assert build.wait(60) != 0
    assert _left_by_builds(client) == []
    assert find_image(client, "9.9.8") is None
    assert list(Path(tempfile.gettempdir()).glob("ebbtide-image-*")) == []


def test_an_image_is_listed_and_removed_by_the_command(client: DockerClient, image: str) -> None:
    client.images.get(image).tag("ebbtide/kafka", "9.9.9")
    assert "ebbtide/kafka:9.9.9" in ebbtide("kafka", "image", "list").stdout
    assert ebbtide("kafka", "image", "remove", "9.9.9").stdout == "Kafka 9.9.9: removed\n"
    assert ebbtide("kafka", "image", "remove", "9.9.9").stdout == "Kafka 9.9.9: no image here\n"
    assert find_image(client, KAFKA, image) is not None
