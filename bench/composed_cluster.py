"""The cluster of compose/foreign.yaml, with TLS and SASL, to break by its containers, network and volumes."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

from cluster.kafka_api.connection import BrokerConnection, CachedPartition, WireError
from cluster.watched.watch_topic import connection_to
from ebbtide.errors import EbbtideError
from ebbtide.waiting import wait_until

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "compose" / "foreign.yaml"
PROJECT = f"ebbtide-watched-{os.getpid()}"
BROKERS = {1: "127.0.0.1:29391", 2: "127.0.0.1:29392", 3: "127.0.0.1:29393"}
CONTROLLERS = tuple(f"127.0.0.1:{port}" for port in (29490, 29491, 29492))
_LABEL = f"label=com.docker.compose.project={PROJECT}"


class ComposedCluster:
    """The cluster of the compose file; brokers and controllers are named by their ids."""

    def __init__(self, kafka: str, folder: Path) -> None:
        self.certificates = folder / "certificates"
        self.config = str(self.certificates / "client.properties")
        self._environment = {**os.environ, "KAFKA": kafka, "CERTIFICATES": str(self.certificates)}

    def up(self) -> None:
        """Start every container, and wait until each broker answers and all are registered."""
        self.certificates.mkdir(parents=True, exist_ok=True)
        _call([str(ROOT / "compose" / "make-certificates"), str(self.certificates)])
        self._compose("up", "-d")
        self.await_brokers()

    def down(self) -> None:
        """Remove containers, networks and volumes."""
        self._compose("down", "--volumes", "--timeout", "1")

    def docker(self, verb: str, *brokers: int) -> None:
        """`docker VERB` the containers of brokers, or of controllers, at once."""
        _call(["docker", *verb.split(), *map(self._container, brokers)])

    def network(self, verb: str, broker: int) -> None:
        """Connect a container to the cluster's network, or disconnect it."""
        (network,) = _call(["docker", "network", "ls", "-q", "--filter", _LABEL]).split()
        alias = ["--alias", _service(broker)] if verb == "connect" else []
        _call(["docker", "network", verb, *alias, network, self._container(broker)])

    def replicas(self, broker: int, topic: str) -> Path:
        """The folder of the topic's partition 0 on a broker's volume."""
        return self.volume(broker) / f"{topic}-0"

    def volume(self, broker: int) -> Path:
        """The folder of a broker's volume on this host."""
        name = f"{PROJECT}_{_service(broker)}"
        return Path(_call(["docker", "volume", "inspect", "-f", "{{.Mountpoint}}", name]).strip())

    def wipe(self, broker: int) -> None:
        """Empty the volume of a broker that is down: start-node formats it again."""
        for path in self.volume(broker).iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def cut_log(self, broker: int, topic: str, *, keep: float = 0.5) -> None:
        """Cut the log of a broker that is down, as a lost page cache would; `keep` is the part that stays."""
        for path in self.replicas(broker, topic).glob("*.log"):
            os.truncate(path, int(path.stat().st_size * keep))

    def connection(self, broker: int) -> BrokerConnection:
        """Return a connection to a broker."""
        return connection_to(BROKERS[broker], self.config, request_timeout_s=3)

    def state(self, topic: str) -> CachedPartition | None:
        """Partition 0 of the topic as the first broker that answers has it."""
        for broker in BROKERS:
            with contextlib.suppress(WireError, KeyError), self.connection(broker) as connection:
                return connection.metadata([topic]).partitions[topic, 0]
        return None

    def leader(self, topic: str) -> int:
        """Wait for a leader, and return it."""

        def led() -> int | None:
            state = self.state(topic)
            return state.leader if state is not None and state.leader > 0 else None

        return wait_until(led, awaited="a leader", timeout_s=30)

    def await_isr(self, topic: str, *members: int) -> None:
        """Wait until the ISR is these brokers, as any broker that answers has it."""
        wait_until(
            lambda: (state := self.state(topic)) is not None and set(state.isr) == set(members),
            awaited=f"ISR {members}",
            timeout_s=60,
        )

    def await_brokers(self) -> None:
        """Wait until each broker answers, and lists all."""

        def are_up() -> bool:
            for broker in BROKERS:
                try:
                    with self.connection(broker) as connection:
                        if connection.metadata([]).brokers.keys() != BROKERS.keys():
                            return False
                except (WireError, EbbtideError):
                    return False
            return True

        wait_until(are_up, awaited="every broker", timeout_s=120)

    def _container(self, broker: int) -> str:
        service = f"label=com.docker.compose.service={_service(broker)}"
        (found,) = _call(["docker", "ps", "-aq", "--filter", _LABEL, "--filter", service]).split()
        return found

    def _compose(self, *words: str) -> None:
        plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0
        compose = ["docker", "compose"] if plugin else ["docker-compose"]
        done = subprocess.run(
            [*compose, "-p", PROJECT, "-f", str(FILE), *words],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr)


def _service(node: int) -> str:
    return f"controller-{node}" if node >= 100 else f"broker-{node}"


def _call(words: list[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr}")
    return done.stdout
