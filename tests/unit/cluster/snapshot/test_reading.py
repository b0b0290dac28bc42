"""What is read of a made cluster, and the one error for each thing that is wrong."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from made_cluster import (
    API_VERSIONS,
    AUTHENTICATE,
    CLUSTER_AUTHORIZATION_FAILED,
    CONFIGS,
    DESCRIBE_QUORUM,
    METADATA,
    TOPIC_AUTHORIZATION_FAILED,
    MadeCluster,
    served_cluster,
)

from cluster.kafka_api.connection import BrokerConnection, WireError
from cluster.snapshot import secure_connection
from cluster.snapshot.reading import read_cluster
from cluster.snapshot.security import Login, Security
from ebbtide.errors import UsageError
from ebbtide.snapshot.model import ClusterSnapshot

PLAIN = Security()


def read(cluster: MadeCluster, security: Security = PLAIN) -> ClusterSnapshot:
    with served_cluster(cluster) as address:
        return read_cluster([address], security)


def refusal(cluster: MadeCluster, security: Security = PLAIN) -> str:
    with pytest.raises(UsageError) as raised:
        read(cluster, security)
    return str(raised.value)


def test_a_snapshot_has_brokers_racks_features_configs_and_elrs() -> None:
    cluster = MadeCluster()
    cluster.topics["orders"] = [
        {"leader": -1, "replicas": [1, 2, 3], "isr": [], "elr": [2, 3]},
        {"leader": 1, "replicas": [1, 2, 4], "isr": [1, 2], "elr": [], "adding": [4], "removing": [2]},
    ]
    snapshot = read(cluster)
    (broker,) = snapshot.brokers
    assert (broker.id, broker.rack, broker.metadata_versions, broker.problem) == (1, "a", (7, 30), None)
    assert broker.configs == {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"}
    assert snapshot.features == cluster.features
    (topic,) = snapshot.topics
    assert (topic.name, topic.configs) == ("orders", {"min.insync.replicas": "2"})
    first, second = topic.partitions
    assert (first.leader, first.isr, first.elr) == (-1, (), (2, 3))
    assert (second.adding, second.removing) == ((4,), (2,))


def test_elrs_are_read_page_by_page() -> None:
    cluster = MadeCluster()
    cluster.page = 2
    one = {"leader": 1, "replicas": [1], "isr": [1]}
    cluster.topics = {name: [{**one, "elr": [index]} for index in range(3)] for name in ("a", "b")}
    snapshot = read(cluster)
    assert [partition.elr for topic in snapshot.topics for partition in topic.partitions] == [(0,), (1,), (2,)] * 2
    assert cluster.asked.count(75) == 3


def test_a_broker_without_describe_topic_partitions_says_no_elr() -> None:
    cluster = MadeCluster()
    cluster.keys = tuple(key for key in cluster.keys if key != 75)
    assert read(cluster).topics[0].partitions[0].elr is None
    assert 75 not in cluster.asked


def test_nothing_is_asked_that_could_change_the_cluster() -> None:
    cluster = MadeCluster()
    read(cluster)
    assert set(cluster.asked) <= {API_VERSIONS, METADATA, CONFIGS, 46, DESCRIBE_QUORUM, 75}


def test_the_voters_are_read_and_without_the_right_they_are_unknown() -> None:
    cluster = MadeCluster()
    assert read(cluster).controllers is None
    cluster.voters = (102, 101)
    assert read(cluster).controllers == (101, 102)


def test_a_topic_that_is_deleted_meanwhile_is_left_out() -> None:
    cluster = MadeCluster()
    cluster.topics["gone"] = cluster.topics["orders"]
    cluster.deleted = frozenset({"gone"})
    assert [topic.name for topic in read(cluster).topics] == ["orders"]


@pytest.mark.parametrize(
    ("keys", "api_versions_max", "says"),
    [
        ((1, 18, 55, 56, 62, 63), None, "that is a listener of controllers"),
        ((0, 1, 3, 4, 5, 6, 7, 18, 32), None, "the cluster runs with ZooKeeper"),
        # Before Kafka 2.4, any newer question gets an answer in the oldest form.
        ((0, 1, 3, 7, 18), 0, "the cluster runs with ZooKeeper"),
        ((0, 1, 3, 18, 32), None, "no KRaft quorum that can be described"),
    ],
)
def test_what_cannot_be_read_is_named(keys: tuple[int, ...], api_versions_max: int | None, says: str) -> None:
    cluster = MadeCluster()
    cluster.keys = keys
    if api_versions_max is not None:
        cluster.api_versions_max = api_versions_max
    assert says in refusal(cluster)


def test_a_broker_without_a_metadata_version_is_refused() -> None:
    cluster = MadeCluster()
    cluster.features = {}
    assert "the broker names no metadata.version" in refusal(cluster)


@pytest.mark.parametrize(
    ("api", "code", "says"),
    [
        (32, TOPIC_AUTHORIZATION_FAILED, "the right DESCRIBE_CONFIGS on topics is missing"),
        (-32, CLUSTER_AUTHORIZATION_FAILED, "the right DESCRIBE_CONFIGS on the cluster is missing"),
    ],
)
def test_a_missing_right_is_named(api: int, code: int, says: str) -> None:
    cluster = MadeCluster()
    cluster.errors = {api: code}
    assert says in refusal(cluster)
    assert "docs/advise.md" in refusal(cluster)


def test_without_the_right_to_see_reassignments_a_note_says_so() -> None:
    cluster = MadeCluster()
    cluster.errors = {46: CLUSTER_AUTHORIZATION_FAILED}
    assert "reassignments under way are unknown" in read(cluster).notes[0]


def test_no_visible_topic_is_noted() -> None:
    cluster = MadeCluster()
    cluster.topics = {}
    assert "no topic is visible" in read(cluster).notes[0]


def test_an_address_that_hangs_is_an_error_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secure_connection, "FIRST_ANSWER_S", 0.2)
    cluster = MadeCluster()
    cluster.silent = frozenset({API_VERSIONS})
    begun = time.monotonic()
    assert "no answer within 0.2 s" in refusal(cluster)
    assert time.monotonic() - begun < 3


@contextmanager
def closing_port(*, unasked: bool) -> Iterator[str]:
    """A port that closes each connection: at once, as one whose broker is down, or once something came."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)

        def serve() -> None:
            while not ended.is_set():
                with suppress(OSError):
                    connection, _ = server.accept()
                    threading.Thread(target=end, args=(connection,), daemon=True).start()

        def end(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                if not unasked:
                    connection.settimeout(5.0)
                    connection.recv(1000)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        ended.set()
        thread.join(2.0)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_published_port_whose_broker_is_down_does_not_blame_the_protocol(protocol: str) -> None:
    with (
        closing_port(unasked=True) as first,
        closing_port(unasked=True) as second,
        pytest.raises(UsageError, match="no broker answers") as raised,
    ):
        read_cluster([first, second], Security(protocol=protocol))
    said = str(raised.value)
    assert first in said
    assert f"{second} closes connections before anything is sent, so it probably leads to no broker that is up" in said
    assert "security.protocol" not in said


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_broker_that_closes_on_what_it_reads_blames_the_protocol_of_its_listener(protocol: str) -> None:
    with (
        closing_port(unasked=True) as down,
        closing_port(unasked=False) as up,
        pytest.raises(UsageError, match="no broker answers") as raised,
    ):
        read_cluster([down, up], Security(protocol=protocol))
    assert f"is security.protocol right for the listener {up}?" in str(raised.value)
    assert f"right for the listener {down}" not in str(raised.value)


def test_a_second_address_is_tried() -> None:
    cluster = MadeCluster()
    with socket.create_server(("127.0.0.1", 0)) as server:
        dead = f"127.0.0.1:{server.getsockname()[1]}"
    with served_cluster(cluster) as address:
        assert read_cluster([dead, address], PLAIN).cluster_id == "made"


@contextmanager
def one_answer(answer: bytes) -> Iterator[str]:
    """A port that answers the first bytes of one connection with these, and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(2.0)


@pytest.mark.parametrize(
    ("answer", "security", "says"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x50", PLAIN, "security.protocol=SSL"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", PLAIN, "not a port of Kafka"),
        # A broker closes a connection whose first bytes are no request.
        (b"", Security(protocol="SSL"), "TLS failed"),
    ],
)
def test_something_else_than_kafka_is_named(answer: bytes, security: Security, says: str) -> None:
    with one_answer(answer) as address, pytest.raises(UsageError, match=says):
        read_cluster([address], security)


def test_a_login_is_made_before_anything_is_asked() -> None:
    cluster = MadeCluster()
    login = Login(mechanism="PLAIN", username="reader", password="tide")
    read(cluster, Security(protocol="SASL_PLAINTEXT", login=login))
    assert cluster.asked[:3] == [17, AUTHENTICATE, API_VERSIONS]


def test_a_wrong_password_is_named_and_not_shown() -> None:
    login = Login(mechanism="PLAIN", username="reader", password="ebbing")
    said = refusal(MadeCluster(), Security(protocol="SASL_PLAINTEXT", login=login))
    assert "the broker refused the login" in said
    assert "reader" not in said
    assert "ebbing" not in said


def test_a_mechanism_that_the_broker_lacks_is_named_with_those_that_it_has() -> None:
    login = Login(mechanism="SCRAM-SHA-512", username="reader", password="tide")
    said = refusal(MadeCluster(), Security(protocol="SASL_PLAINTEXT", login=login))
    assert "does not accept this SASL mechanism" in said
    assert "PLAIN" in said


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for this host and its key, in one PEM file. Java's package brings openssl."""
    path = tmp_path_factory.mktemp("tls") / "node.pem"
    key = path.with_name("key.pem")
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", str(key), "-out", str(path)]
    subprocess.run([*made, "-subj", "/CN=localhost", "-addext", names, *files], check=True, capture_output=True)
    path.write_text(path.read_text() + key.read_text())
    return path


def read_by_tls(certificate: Path, security: Security) -> ClusterSnapshot:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with served_cluster(MadeCluster(), context) as address:
        return read_cluster([address], security)


def test_a_cluster_is_read_by_tls(certificate: Path) -> None:
    login = Login(mechanism="PLAIN", username="reader", password="tide")
    snapshot = read_by_tls(certificate, Security(protocol="SASL_SSL", truststore=certificate, login=login))
    assert [broker.problem for broker in snapshot.brokers] == [None]


def test_a_certificate_that_nobody_vouches_for_is_named(certificate: Path) -> None:
    with pytest.raises(UsageError, match="the broker's certificate is not trusted"):
        read_by_tls(certificate, Security(protocol="SSL"))


def test_plaintext_to_a_tls_listener_names_the_protocol(certificate: Path) -> None:
    with pytest.raises(UsageError, match=r"security\.protocol"):
        read_by_tls(certificate, PLAIN)


def test_a_broker_that_names_a_page_twice_is_an_error_and_no_endless_reading() -> None:
    class Endless:
        """Answers every page with the same next page."""

        asked = 0

        def ask(self, *_: object) -> SimpleNamespace:
            self.asked += 1
            return SimpleNamespace(topics=[], next_cursor=SimpleNamespace(topic_name="t", partition_index=0))

    broker = Endless()
    with pytest.raises(WireError, match="t-0 a second time"):
        BrokerConnection.describe(broker, ["t"])  # type: ignore[arg-type]
    assert broker.asked == 2
