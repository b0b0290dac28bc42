"""`ebbtide advise` reads a real node by TLS and SASL with the rights that the page lists, and names what lacks."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
)
from live.single_node import VERSION, SingleNode

from cluster.kafka_api.connection import BrokerConnection
from cluster.runtime.jvm import installation_of
from cluster.snapshot.reading import read_cluster
from cluster.snapshot.security import Login, Security, security_from
from ebbtide.errors import UsageError
from ebbtide.releases.known_releases import minor_release_of
from ebbtide.snapshot.model import ClusterSnapshot

pytestmark = [pytest.mark.live, pytest.mark.beside]

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
DESCRIBE, DESCRIBE_CONFIGS = ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS
RIGHTS = {
    "reader": {(TOPIC, DESCRIBE), (TOPIC, DESCRIBE_CONFIGS), (CLUSTER, DESCRIBE), (CLUSTER, DESCRIBE_CONFIGS)},
    "without-topics": {(CLUSTER, DESCRIBE), (CLUSTER, DESCRIBE_CONFIGS)},
    "without-topic-configs": {(TOPIC, DESCRIBE), (CLUSTER, DESCRIBE), (CLUSTER, DESCRIBE_CONFIGS)},
    "without-broker-configs": {(TOPIC, DESCRIBE), (TOPIC, DESCRIBE_CONFIGS), (CLUSTER, DESCRIBE)},
    "without-moves": {(TOPIC, DESCRIBE), (TOPIC, DESCRIBE_CONFIGS), (CLUSTER, DESCRIBE_CONFIGS)},
}
"""Each user and its rights; the password is `tide`."""


TOKENS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


class GuardedNode(SingleNode):
    """A node with a second listener, by TLS and SASL, and ACLs; `guarded` is that listener's address."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.guarded = f"127.0.0.1:{probe.getsockname()[1]}"
        self.certificate = folder / "node.pem"
        _make_certificate(self.certificate)
        users = " ".join(f'user_{name}="tide"' for name in RIGHTS)
        module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        self._listeners = {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,GUARDED:SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
            "listener.name.guarded.oauthbearer.sasl.jaas.config": f'{TOKENS} unsecuredLoginStringClaim_sub="node";',
            "listener.name.guarded.plain.sasl.jaas.config": f"{module} {users};",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificate),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "broker.rack": "rack-7",
        }
        super().__init__(folder, installation_of(VERSION), self._listeners)

    def start(self) -> None:
        """Add the listener to those that the file has, and start."""
        text = self._properties.read_text()
        if "GUARDED://" not in text:
            text = text.replace("listeners=PLAINTEXT://", f"listeners=GUARDED://{self.guarded},PLAINTEXT://")
            self._properties.write_text(text)
        super().start()


def _make_certificate(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    key = path.with_name("key.pem")
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*made, *names, "-keyout", str(key), "-out", str(path)], check=True, capture_output=True)
    path.write_text(key.read_text() + path.read_text())


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedNode]:
    guarded = GuardedNode(tmp_path_factory.mktemp("node"))
    try:
        _make_topic_and_acls(guarded)
        yield guarded
    finally:
        guarded.kill()


def _make_topic_and_acls(node: GuardedNode) -> None:
    with BrokerConnection(node.address, connect_timeout_s=5.0, request_timeout_s=10.0) as connection:
        connection.create_topic("orders", [[1], [1]], {"min.insync.replicas": "1", "flush.messages": "1"})
    admin = KafkaAdminClient(bootstrap_servers=node.address)
    try:
        acls = [
            ACL(
                principal=f"User:{user}",
                host="*",
                operation=operation,
                permission_type=ACLPermissionType.ALLOW,
                resource_pattern=ResourcePattern(kind, "*" if kind == TOPIC else "kafka-cluster"),
            )
            for user, rights in RIGHTS.items()
            for kind, operation in rights
        ]
        admin.create_acls(acls)
    finally:
        admin.close()


def read_as(node: GuardedNode, user: str, password: str = "tide") -> ClusterSnapshot:
    login = Login(mechanism="PLAIN", username=user, password=password)
    return read_cluster([node.guarded], Security(protocol="SASL_SSL", login=login, truststore=node.certificate))


def refusal(node: GuardedNode, user: str, password: str = "tide") -> str:
    with pytest.raises(UsageError) as raised:
        read_as(node, user, password)
    return str(raised.value)


def test_the_listed_rights_are_enough(node: GuardedNode) -> None:
    snapshot = read_as(node, "reader")
    (broker,) = snapshot.brokers
    assert (broker.address, broker.rack, broker.problem) == (node.guarded, "rack-7", None)
    assert broker.configs["min.insync.replicas"] == "1"
    assert broker.metadata_versions is not None
    assert minor_release_of(broker.metadata_versions[1]) == VERSION.rpartition(".")[0]
    assert snapshot.features["eligible.leader.replicas.version"] == 1
    (orders,) = (topic for topic in snapshot.topics if topic.name == "orders")
    assert orders.configs == {"min.insync.replicas": "1", "flush.messages": "1"}
    assert [(one.replicas, one.isr, one.elr) for one in orders.partitions] == [((1,), (1,), ())] * 2
    assert snapshot.notes == ()


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_token_and_a_truststore_of_java_reach_it(kind: str, node: GuardedNode, tmp_path: Path) -> None:
    """By the properties with which a Java client does."""
    store = ["-storetype", kind, "-storepass", "of-the-store", "-keystore", str(tmp_path / "trust")]
    both = node.certificate.read_text()
    (tmp_path / "ca.pem").write_text(both[both.index("-----BEGIN CERTIFICATE") :])
    imported = ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(tmp_path / "ca.pem"), *store]
    subprocess.run(imported, check=True, capture_output=True)
    properties = tmp_path / "client.properties"
    properties.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nssl.truststore.location={tmp_path / 'trust'}\n"
        f"ssl.truststore.type={kind}\nssl.truststore.password=of-the-store\n"
        f'sasl.jaas.config={TOKENS} unsecuredLoginStringClaim_sub="reader";\n'
    )
    snapshot = read_cluster([node.guarded], security_from(properties))
    assert snapshot == msgspec.structs.replace(read_as(node, "reader"), taken_at=snapshot.taken_at)
    (tmp_path / "stranger").write_text("a.b.c")
    text = properties.read_text().partition("sasl.jaas.config")[0]
    properties.write_text(f"{text}sasl.oauthbearer.token.endpoint.url=file://{tmp_path}/stranger\n")
    with pytest.raises(UsageError, match="the broker refused the login"):
        read_cluster([node.guarded], security_from(properties))


def test_each_missing_right_is_named(node: GuardedNode) -> None:
    assert "DESCRIBE_CONFIGS on topics is missing" in refusal(node, "without-topic-configs")
    assert "DESCRIBE_CONFIGS on the cluster is missing" in refusal(node, "without-broker-configs")
    assert "reassignments under way are unknown" in read_as(node, "without-moves").notes[0]
    assert "no topic is visible" in read_as(node, "without-topics").notes[0]
