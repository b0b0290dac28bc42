"""A cluster of plain Kafka processes on loopback ports, which Ebbtide did not start and knows nothing of.

It needs a JDK and a fetched release, but neither root nor namespaces. Tests break it by process id and by its folders.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from live.single_node import free_ports

from cluster.jars.releases import jars_of
from cluster.kafka_api.connection import BrokerConnection, WireError
from cluster.runtime.java_programs import program_for_all
from cluster.runtime.jvm import installation_of, java_command
from cluster.runtime.properties import cluster_id, format_arguments
from cluster.watched.watch_topic import connection_to
from ebbtide.waiting import wait_until

FIRST_CONTROLLER = 101


class ForeignCluster:
    """Controllers 101, 102, ... and brokers 1, 2, ..., each a JVM of its own.

    `properties` are added to those of every node. `secure`: every listener has TLS and SASL, with the users `node`
    (may do everything) and `watcher`; `client_properties` is the file of a user. `features`: the levels to format
    with, where they are not the release's own. `racks`: the racks of brokers.
    """

    def __init__(
        self,
        folder: Path,
        kafka: str,
        *,
        brokers: int = 3,
        controllers: int = 1,
        properties: Mapping[str, str] | None = None,
        secure: bool = False,
        features: Mapping[str, int] | None = None,
        racks: Mapping[int, str] | None = None,
    ) -> None:
        jars_of(kafka)
        self._racks = dict(racks or {})
        self._features = dict(features or {})
        self.kafka = kafka
        self.folder = folder
        self._installation = installation_of(kafka)
        self._properties = dict(properties or {})
        self._controllers = range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers)
        self._brokers = range(1, brokers + 1)
        self._ports = dict(zip([*self._controllers, *self._brokers], free_ports(brokers + controllers), strict=True))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._cluster_id = cluster_id(str(uuid.uuid4()))
        folder.mkdir(parents=True, exist_ok=True)
        self._protocol = "SASL_SSL" if secure else "PLAINTEXT"
        if secure:
            self._properties = secure_properties(folder) | self._properties

    def client_properties(self, user: str) -> Path | None:
        """The --command-config of a user; None for a cluster without TLS and SASL."""
        if self._protocol == "PLAINTEXT":
            return None
        path = self.folder / f"{user}.properties"
        path.write_text(
            f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={self.folder}/ca.pem\n"
            f"sasl.mechanism=PLAIN\nsasl.jaas.config={_jaas(user)}\n"
        )
        return path

    def connection_to(self, node: int) -> BrokerConnection:
        """A connection to a node, as the user who may do everything."""
        config = self.client_properties("node")
        return connection_to(self.address(node), None if config is None else str(config))

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, separated by commas."""
        return ",".join(self.address(one) for one in self._brokers)

    @property
    def controllers(self) -> str:
        """The controllers' addresses, separated by commas."""
        return ",".join(self.address(one) for one in self._controllers)

    def address(self, node: int) -> str:
        """`host:port` of a node."""
        return f"127.0.0.1:{self._ports[node]}"

    def data(self, node: int) -> Path:
        """The log.dirs folder of a node."""
        return self.folder / f"node-{node}" / "data"

    def log(self, node: int) -> Path:
        """The output of a node."""
        return self.folder / f"node-{node}.log"

    def pid(self, node: int) -> int:
        """The process id of a node."""
        return self._processes[node].pid

    def up(self) -> None:
        """Format and start every node, and wait until every broker is registered and answers."""
        self._format(*self._ports)
        for node in self._ports:
            self._launch(node)
        wait_until(
            self.is_whole,
            awaited="every broker to answer, and to list every broker",
            timeout_s=90,
            last_seen=lambda: f"{ {one: self._listed_by(one) for one in self._brokers} }; logs in {self.folder}",
        )

    def start(self, node: int) -> None:
        """Start a node again; returns at once."""
        self._launch(node)

    def kill(self, *nodes: int) -> None:
        """SIGKILL nodes at once, and reap them."""
        for node in nodes:
            self._processes[node].kill()
        for node in nodes:
            self._processes[node].wait()

    def stop(self, node: int) -> None:
        """SIGTERM a node, and wait until it is gone."""
        self._processes[node].terminate()
        self._processes[node].wait(60)

    def pause(self, node: int) -> None:
        """SIGSTOP a node."""
        self._processes[node].send_signal(signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """SIGCONT a node."""
        self._processes[node].send_signal(signal.SIGCONT)

    def wipe(self, node: int) -> None:
        """Replace the disk of a node that is down by a new one."""
        shutil.rmtree(self.data(node))
        self._format(node)

    def down(self) -> None:
        """SIGKILL what still runs."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()

    def is_whole(self) -> bool:
        """Whether every broker answers, and lists every broker."""
        return all(self._listed_by(one) >= set(self._brokers) for one in self._brokers)

    def registered(self) -> set[int]:
        """The brokers that a broker lists in its metadata."""
        return next((found for one in self._brokers if (found := self._listed_by(one))), set())

    def _listed_by(self, broker: int) -> set[int]:
        """The brokers that this broker lists; none if it does not answer. One that starts may not list itself yet."""
        with contextlib.suppress(WireError), self.connection_to(broker) as connection:
            return set(connection.metadata([]).brokers)
        return set()

    def _format(self, *nodes: int) -> None:
        arguments = {}
        for node in nodes:
            path = self.folder / f"node-{node}.properties"
            settings = self._settings(node) | self._properties
            path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
            arguments[self.log(node)] = format_arguments(self.kafka, self._cluster_id, str(path), self._features)
        program = program_for_all(arguments)
        words = java_command(
            self._installation, program.main, program.arguments, heap_mb=program.heap_mb, jars=program.jars
        )
        subprocess.run(words, check=True, capture_output=True)

    def _launch(self, node: int) -> None:
        path = self.folder / f"node-{node}.properties"
        command = java_command(self._installation, "kafka.Kafka", [str(path)], options=self._options())
        with self.log(node).open("ab") as log:
            self._processes[node] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def _options(self) -> list[str]:
        # Killed, a JVM leaves the codecs' libraries where it had put them.
        return [f"-Djava.io.tmpdir={self.folder}"]

    def _settings(self, node: int) -> dict[str, str]:
        is_broker = node in self._brokers
        name = "BROKER" if is_broker else "CONTROLLER"
        return {
            "process.roles": "broker" if is_broker else "controller",
            "node.id": str(node),
            "controller.quorum.voters": ",".join(f"{one}@{self.address(one)}" for one in self._controllers),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": f"CONTROLLER:{self._protocol},BROKER:{self._protocol}",
            "listeners": f"{name}://{self.address(node)}",
            "log.dirs": str(self.data(node)),
            "offsets.topic.replication.factor": "1",
            "num.network.threads": "2",
            "num.io.threads": "4",
            "log.cleaner.dedupe.buffer.size": str(4 << 20),
            **({} if is_broker else {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}),
            **(
                {
                    "inter.broker.listener.name": "BROKER",
                    "advertised.listeners": f"{name}://{self.address(node)}",
                    "broker.heartbeat.interval.ms": "500",
                    "replica.lag.time.max.ms": "4000",
                }
                if is_broker
                else {}
            ),
            **({"broker.rack": self._racks[node]} if node in self._racks else {}),
        }


def secure_properties(folder: Path) -> dict[str, str]:
    """TLS and SASL for every listener, and ACLs; the certificates are made in the folder."""
    make_certificates(folder)
    login = {
        f"listener.name.{name}.plain.sasl.jaas.config": f'{_jaas("node")[:-1]} user_node="hush" user_watcher="hush";'
        for name in ("broker", "controller")
    }
    return login | {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:node",
    }


def make_certificates(folder: Path) -> None:
    """Make ca.pem, and node.pem with its key. Java's package brings openssl."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    names = ("-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost")
    words = ["openssl", "req", "-x509", *key, "-subj", "/CN=localhost", *names, "-keyout", "key.pem", "-out", "ca.pem"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    (folder / "node.pem").write_text((folder / "key.pem").read_text() + (folder / "ca.pem").read_text())


def _jaas(user: str) -> str:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return f'{module} required username="{user}" password="hush";'


@contextmanager
def foreign_cluster(folder: Path, kafka: str, **settings: object) -> Iterator[ForeignCluster]:
    """A cluster that is up; killed at the end."""
    cluster = ForeignCluster(folder, kafka, **settings)  # type: ignore[arg-type]
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
