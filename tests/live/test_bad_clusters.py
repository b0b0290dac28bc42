"""What `ebbtide advise` and `ebbtide watch` say of a cluster that they cannot read: one clear error within 15 s."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from host_turn import HOST
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.admin import ACLResourcePatternType as Pattern
from live.commands import ebbtide
from live.foreign_cluster import ForeignCluster, foreign_cluster
from live.single_node import free_ports
from made_cluster import API_VERSIONS, MadeCluster, served_cluster
from quick import quick_first

from cluster.jars.releases import jars_of
from cluster.kafka_api.connection import BrokerConnection, WireError
from cluster.runtime.jvm import installation_of, java_command
from ebbtide.waiting import wait_until

pytestmark = pytest.mark.live

WITHIN_S = 15.0
KAFKA = "4.3.1"
WITH_ZOOKEEPER = "3.9.1"


def refusals(runs: Path, bootstrap: str, *options: str) -> Iterator[str]:
    """Yield what each command says of a cluster that it must refuse in time."""
    watch = ("watch", "--bootstrap", bootstrap, "--for", "1m", "--runs", str(runs))
    for words in (("advise", "--bootstrap", bootstrap), watch):
        yield refusal(*words, *options)
    assert not list(runs.glob("*"))


def refusal(*words: str | Path) -> str:
    began = time.monotonic()
    done = ebbtide(*words, timeout_s=60)
    took_s = time.monotonic() - began
    assert done.returncode == 4, done.stdout + done.stderr
    assert done.stderr.count("error: ") == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert took_s < WITHIN_S, f"{took_s:.1f} s: {done.stderr}"
    return done.stderr


@contextlib.contextmanager
def silent_port() -> Iterator[str]:
    """Serve connections that never get an answer."""
    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        is_over = threading.Event()

        def serve() -> None:
            while not is_over.is_set():
                with contextlib.suppress(TimeoutError):
                    connection, _ = server.accept()
                    kept.append(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            is_over.set()
            thread.join()
            for connection in kept:
                connection.close()


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """An address whose packets nobody answers: the queue of the listener is full, so that the kernel drops SYNs."""
    with socket.socket() as server, contextlib.ExitStack() as fillers:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            one = fillers.enter_context(socket.socket())
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.connect(server.getsockname())
        with pytest.raises(TimeoutError):
            socket.create_connection(server.getsockname(), timeout=0.5)
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.beside
def test_an_address_that_swallows_packets(tmp_path: Path) -> None:
    with black_hole() as address:
        for said in refusals(tmp_path, ",".join([address] * 6)):
            assert "no broker answers" in said
            assert "timed out" in said


@pytest.mark.beside
def test_a_release_that_is_not_known_yet(tmp_path: Path) -> None:
    cluster = MadeCluster()
    cluster.metadata_versions = (7, 99)
    cluster.features = {"metadata.version": 99}
    with served_cluster(cluster) as address:
        for said in refusals(tmp_path, address):
            assert "not known" in said
            assert "metadata.version up to 99" in said
        done = ebbtide("advise", "--bootstrap", address, "--assume", "kafka=4.3.1", timeout_s=120)
        assert done.returncode == 0, done.stderr
    assert API_VERSIONS in cluster.asked


class ZooKeeperCluster:
    """A broker of 3.9.1 in ZooKeeper mode, on loopback."""

    def __init__(self, folder: Path) -> None:
        jars_of(WITH_ZOOKEEPER)
        self._installation = installation_of(WITH_ZOOKEEPER)
        self._folder = folder
        zookeeper, broker = free_ports(2)
        self.address = f"127.0.0.1:{broker}"
        (folder / "zookeeper").mkdir(parents=True)
        options = ["-Dzookeeper.admin.enableServer=false", "-Dzookeeper.clientPortAddress=127.0.0.1"]
        settings = {"zookeeper.connect": f"127.0.0.1:{zookeeper}", "listeners": f"PLAINTEXT://{self.address}"}
        settings |= {"broker.id": "1", "zookeeper.connection.timeout.ms": "60000", "log.dirs": str(folder / "data")}
        properties = folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        self._processes = [self._start(main, [str(zookeeper), str(folder / "zookeeper")], options)]
        self._processes.append(self._start("kafka.Kafka", [str(properties)], []))

    def _start(self, main: str, arguments: Sequence[str], options: Sequence[str]) -> subprocess.Popen[bytes]:
        options = [*options, f"-Djava.io.tmpdir={self._folder}"]
        words = java_command(self._installation, main, list(arguments), options=options)
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)

    def await_broker(self) -> None:
        """Wait until the broker answers."""

        def answers() -> bool:
            with BrokerConnection(self.address, connect_timeout_s=1, request_timeout_s=2) as connection:
                try:
                    return bool(connection.metadata([]).brokers)
                except WireError:
                    return False

        wait_until(answers, awaited="the broker", timeout_s=60, last_seen=lambda: str(self._folder / "log"))

    def down(self) -> None:
        """SIGKILL both."""
        for process in self._processes:
            process.kill()
            process.wait()


def test_a_cluster_in_zookeeper_mode(tmp_path: Path) -> None:
    with HOST.held():
        cluster = ZooKeeperCluster(tmp_path / "zookeeper")
        try:
            cluster.await_broker()
            (tmp_path / "runs").mkdir()
            for said in refusals(tmp_path / "runs", cluster.address):
                assert "the cluster runs with ZooKeeper" in said
        finally:
            cluster.down()


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForeignCluster]:
    """One controller and one broker with TLS, SASL and ACLs."""
    with HOST.held(), foreign_cluster(tmp_path_factory.mktemp("secure"), KAFKA, brokers=1, secure=True) as made:
        yield made


@contextlib.contextmanager
def admin_of(cluster: ForeignCluster) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(
        bootstrap_servers=cluster.bootstrap,
        security_protocol="SASL_SSL",
        ssl_cafile=str(cluster.folder / "ca.pem"),
        sasl_mechanism="PLAIN",
        sasl_plain_username="node",
        sasl_plain_password="hush",
    )
    try:
        yield admin
    finally:
        admin.close()


TOPICS = ResourcePattern(ResourceType.TOPIC, "ebbtide-watch-", Pattern.PREFIXED)
CLUSTER = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")
RIGHTS = {
    "Create": (TOPICS, ACLOperation.CREATE),
    "Delete": (TOPICS, ACLOperation.DELETE),
    "Read": (TOPICS, ACLOperation.READ),
    "Write": (TOPICS, ACLOperation.WRITE),
    "Describe": (TOPICS, ACLOperation.DESCRIBE),
    "ClusterAction": (CLUSTER, ACLOperation.CLUSTER_ACTION),
    "Describe on the cluster": (CLUSTER, ACLOperation.DESCRIBE),
}


def give_rights(cluster: ForeignCluster, names: Sequence[str]) -> None:
    """Give the user `watcher` these rights and no others."""
    acls = [
        ACL(
            principal="User:watcher", host="*", operation=RIGHTS[name][1], permission_type=ACLPermissionType.ALLOW,
            resource_pattern=RIGHTS[name][0],
        )
        for name in names
    ]  # fmt: skip
    with admin_of(cluster) as admin:
        admin.delete_acls([_every(kind) for kind in (ResourceType.TOPIC, ResourceType.CLUSTER)])
        admin.create_acls(acls)
        wait_until(lambda: _count(admin) == len(acls), awaited="the rights", timeout_s=20)


def _every(kind: ResourceType) -> ACLFilter:
    return ACLFilter(
        principal="User:watcher",
        host="*",
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
        resource_pattern=ResourcePatternFilter(kind, None, Pattern.ANY),
    )


def _count(admin: KafkaAdminClient) -> int:
    return sum(len(admin.describe_acls(_every(kind))[0]) for kind in (ResourceType.TOPIC, ResourceType.CLUSTER))


def watch_words(cluster: ForeignCluster, runs: Path) -> tuple[str, ...]:
    config = str(cluster.client_properties("watcher"))
    where = ("--bootstrap", cluster.bootstrap, "--controllers", cluster.controllers, "--command-config", config)
    return ("watch", *where, "--for", "3s", "--runs", str(runs))


def left_topics(cluster: ForeignCluster, runs: Path) -> list[str]:
    """Return the topics on the cluster that the watches recorded in `runs` made."""
    made = {f"ebbtide-watch-{run.name.rsplit('-', 1)[1]}-t" for run in runs.iterdir()}
    with admin_of(cluster) as admin:
        return [name for name in admin.list_topics() if name in made]


@pytest.mark.parametrize("right", quick_first(["ClusterAction", "Read"]))
def test_a_right_that_a_watch_lacks_is_named_and_no_topic_is_left(
    secure: ForeignCluster, tmp_path: Path, right: str
) -> None:
    give_rights(secure, [name for name in RIGHTS if name != right])
    said = refusal(*watch_words(secure, tmp_path))
    assert right in said
    assert left_topics(secure, tmp_path) == []


def test_without_the_right_to_delete_the_topic_that_stays_is_named(secure: ForeignCluster, tmp_path: Path) -> None:
    give_rights(secure, [name for name in RIGHTS if name != "Delete"])
    began = time.monotonic()
    done = ebbtide(*watch_words(secure, tmp_path), timeout_s=60)
    assert time.monotonic() - began < WITHIN_S
    assert done.returncode in (3, 4), done.stderr
    (topic,) = left_topics(secure, tmp_path)
    assert "no Delete" in done.stdout
    assert f"topic {topic}" in done.stderr
    assert "give this user the right Delete" in done.stderr
    give_rights(secure, list(RIGHTS))
    assert f"topic {topic}" in ebbtide("clean").stdout
    assert left_topics(secure, tmp_path) == []


@pytest.mark.slow
def test_without_describe_on_the_cluster_the_controllers_ids_stay_unknown(
    secure: ForeignCluster, tmp_path: Path
) -> None:
    give_rights(secure, [name for name in RIGHTS if name != "Describe on the cluster"])
    done = ebbtide(*watch_words(secure, tmp_path), timeout_s=120)
    assert done.returncode == 0, done.stderr
    assert left_topics(secure, tmp_path) == []


@pytest.mark.parametrize(
    "is_broker", [pytest.param(False, id="silent"), pytest.param(True, id="a broker", marks=pytest.mark.slow)]
)
def test_a_controller_that_cannot_be_reached(secure: ForeignCluster, tmp_path: Path, is_broker: bool) -> None:
    config = str(secure.client_properties("node"))
    with contextlib.nullcontext(secure.address(1)) if is_broker else silent_port() as address:
        where = ("--bootstrap", secure.bootstrap, "--controllers", address, "--command-config", config)
        said = refusal("watch", *where, "--for", "1m", "--runs", str(tmp_path))
    assert "no controller gives the metadata log" in said
    assert address in said
    assert left_topics(secure, tmp_path) == []
