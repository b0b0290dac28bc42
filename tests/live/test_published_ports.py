"""A client on the host reaches a cluster by its published ports, and after a kill nothing listens there."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_state import HostState, left_after
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from live.commands import ebbtide

from ebbtide.daemon.control import daemon_pid
from ebbtide.errors import ExitCode
from ebbtide.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.root, pytest.mark.slow]

RECORDS = 1000


def three_free_ports() -> int:
    """The first of three ports in a row that are free."""
    for first in range(29092, 39092, 10):
        try:
            for port in range(first, first + 3):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return first
    raise AssertionError("no three free ports")


@pytest.fixture
def name() -> str:
    return f"published-{os.getpid()}"


@pytest.fixture(params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def first_port(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[int]:
    """The first of the published ports of a cluster on each runtime."""
    before, port = HostState.now(), three_free_ports()
    where = ("--runs", tmp_path / "runs", "--runtime", request.param)
    done = ebbtide("cluster", "up", "--kafka", "4.3.1", "--publish", str(port), "--cluster", name, *where)
    assert done.returncode == ExitCode.AS_PREDICTED, done.stdout + done.stderr
    yield port
    ebbtide("clean")
    assert left_after(before, str(tmp_path)) == []


def test_a_client_on_the_host_writes_and_reads_until_the_daemon_is_killed(first_port: int, name: str) -> None:
    assert ebbtide("cluster", "topic", "t", "--cluster", name).returncode == ExitCode.AS_PREDICTED
    status = json.loads(ebbtide("cluster", "status", name, "--json").stdout)
    assert status["published"] == [f"127.0.0.1:{port}" for port in range(first_port, first_port + 3)]
    # One broker is enough to bootstrap from: it names the others by their published addresses.
    producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{first_port}", acks="all")
    sent = [producer.send("t", b"%d" % number) for number in range(RECORDS)]
    assert [one.get(60).offset for one in sent] == list(range(RECORDS))
    producer.close()
    consumer = KafkaConsumer("t", bootstrap_servers=f"127.0.0.1:{first_port + 2}", auto_offset_reset="earliest")
    assert [next(consumer).value for _ in range(RECORDS)] == [b"%d" % number for number in range(RECORDS)]
    consumer.close()
    # What cuts the clients off cuts a program on the host off too.
    cut = ebbtide("cluster", "fault", "partition", "--from", "brokers", "--to", "clients", "--cluster", name)
    assert cut.returncode == ExitCode.AS_PREDICTED, cut.stdout + cut.stderr
    with pytest.raises(KafkaError):
        KafkaConsumer(bootstrap_servers=f"127.0.0.1:{first_port}", bootstrap_timeout_ms=3000).topics()
    os.kill(daemon_pid(name), signal.SIGKILL)

    def is_free() -> bool:
        try:
            socket.create_connection(("127.0.0.1", first_port), timeout=1).close()
        except ConnectionRefusedError:
            return True
        return False

    wait_until(is_free, awaited="the port to be free", timeout_s=30)
