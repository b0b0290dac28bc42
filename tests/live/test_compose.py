"""A compose file starts a cluster by hand that keeps what it is given, on loopback only, and goes without a trace."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import KafkaError

from cluster.host.containers import connect
from cluster.images.build import build_image
from cluster.images.find import find_own_image
from ebbtide.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.docker]

FILES = Path(__file__).resolve().parents[2] / "compose"
KAFKA = "3.9.1"
PROJECT = f"ebbtide-test-{os.getpid()}"
BROKERS = ["127.0.0.1:29091", "127.0.0.1:29092", "127.0.0.1:29093"]
RECORDS = 1000


def _compose(*words: str, file: str = "cluster-3.yaml") -> str:
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0
    command = ["docker", "compose"] if plugin else [shutil.which("docker-compose") or "docker-compose"]
    done = subprocess.run(
        [*command, "-p", PROJECT, "-f", str(FILES / file), *words],
        capture_output=True,
        text=True,
        env={**os.environ, "KAFKA": KAFKA},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _of_project() -> list[str]:
    """Containers, volumes and networks of the project."""
    label = f"label=com.docker.compose.project={PROJECT}"
    listings = (["ps", "--all"], ["volume", "ls"], ["network", "ls"])
    return [
        line
        for words in listings
        for line in subprocess.run(
            ["docker", *words, "--quiet", "--filter", label], capture_output=True, text=True, check=True
        ).stdout.split()
    ]


@pytest.fixture
def cluster() -> Iterator[None]:
    with closing(connect()) as client:
        if find_own_image(client, KAFKA, "for compose") is None:
            build_image(client, KAFKA, lambda text: None)
    try:
        _compose("up", "-d")
        yield
    finally:
        _compose("down", "--volumes")
    assert _of_project() == []


def _admin() -> KafkaAdminClient | None:
    """An admin client, once all brokers are there."""
    try:
        admin = KafkaAdminClient(bootstrap_servers=BROKERS, request_timeout_ms=5000)
    except KafkaError:
        return None
    with contextlib.suppress(KafkaError):
        if len(admin.describe_cluster()["brokers"]) == len(BROKERS):
            return admin
    admin.close()
    return None


@pytest.mark.slow
def test_a_cluster_by_hand_gives_back_what_it_was_given(cluster: None) -> None:
    admin = wait_until(_admin, awaited="three brokers", timeout_s=60, poll_s=0.5)
    admin.create_topics([NewTopic("t", 3, 3)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=BROKERS, acks="all")
    for number in range(RECORDS):
        producer.send("t", str(number).encode())
    producer.flush()
    producer.close()
    consumer = KafkaConsumer(
        "t", bootstrap_servers=BROKERS, group_id="g", auto_offset_reset="earliest", consumer_timeout_ms=30_000
    )
    read = set()
    for record in consumer:
        read.add(int(record.value))
        if len(read) == RECORDS:
            break
    consumer.close()
    assert read == set(range(RECORDS))


@pytest.mark.parametrize("file", sorted(path.name for path in FILES.glob("*.yaml")))
def test_every_file_is_valid(file: str) -> None:
    assert _compose("config", "--services", file=file).split()
