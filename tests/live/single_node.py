"""One real Kafka node, controller and broker in one process, on loopback: for tests and benchmarks of clients.

It needs a JDK and a fetched release, but neither root nor namespaces.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.kafka_api.connection import BrokerConnection, WireError
from cluster.runtime.jvm import Installation, installation_of, java_command
from cluster.runtime.properties import cluster_id
from ebbtide.waiting import wait_until

VERSION = os.environ.get("EBBTIDE_TEST_KAFKA", "4.3.1")


class SingleNode:
    """A running node.

    `address` and `controller` are the `host:port` of its listeners, `data_dir` its log.dirs folder, `log_file` its log.
    """

    def __init__(self, folder: Path, installation: Installation, properties: dict[str, str] | None = None) -> None:
        broker_port, controller_port = free_ports(2)
        self._folder = folder
        self.address = f"127.0.0.1:{broker_port}"
        self.controller = f"127.0.0.1:{controller_port}"
        self.data_dir = folder / "data"
        self.log_file = folder / "kafka.log"
        self._installation = installation
        self._properties = folder / "server.properties"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{self.controller}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{self.controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "auto.create.topics.enable": "false",
            **(properties or {}),
        }
        folder.mkdir(parents=True, exist_ok=True)
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        cluster = cluster_id(str(uuid.uuid4()))
        format_ = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._properties)]
        subprocess.run(self._jvm(format_), check=True, capture_output=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start the process and wait until it answers."""
        with self.log_file.open("ab") as log:
            command = self._jvm(["kafka.Kafka", str(self._properties)])
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        wait_until(self._answers, awaited="the node to answer", timeout_s=60, last_seen=lambda: str(self.log_file))

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _jvm(self, arguments: list[str]) -> list[str]:
        main, *rest = arguments
        # Killed, it leaves the codecs' libraries where it had put them.
        return java_command(self._installation, main, rest, options=[f"-Djava.io.tmpdir={self._folder}"])

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log_file.read_text()[-2000:]
        try:
            with BrokerConnection(self.address, connect_timeout_s=0.5, request_timeout_s=2.0) as broker:
                return bool(broker.metadata([]).brokers)
        except WireError:
            return False


@contextmanager
def single_node(folder: Path, version: str = VERSION) -> Iterator[SingleNode]:
    """A node of a fetched release in `folder`; killed at the end. Raises `HarnessError` if it is not fetched."""
    node = SingleNode(folder, installation_of(version))
    try:
        yield node
    finally:
        node.kill()


@pytest.fixture(scope="module")
def kafka_node() -> Iterator[SingleNode]:
    """One node for a module's tests. Fails, with the command to type, when the release is not fetched."""
    with tempfile.TemporaryDirectory(prefix="ebbtide-node-") as folder, single_node(Path(folder)) as node:
        yield node


def free_ports(count: int) -> list[int]:
    """Return ports below those that the kernel gives outgoing connections: Kafka binds them seconds later."""
    found: list[int] = []
    for port in random.sample(range(20_000, 32_000), 100):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("too few ports are free")
