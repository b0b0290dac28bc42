"""How clients reach brokers with TLS and SASL: by a file that the configuration names, without its password."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cluster.kafka_api.connection import BrokerConnection
from cluster.snapshot.secure_connection import SecureConnection
from ebbtide.errors import UsageError
from workloads.client import Client
from workloads.config import Endpoints
from workloads.reaching import client_security, connection_to

PLAIN = Endpoints(status="s", stop="t")
LOGIN = (
    "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
    'sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="w" password="hush";\n'
)


@pytest.fixture
def secured(tmp_path: Path) -> Endpoints:
    path = tmp_path / "client.properties"
    path.write_text(LOGIN)
    return Client("c", "m", tmp_path, tmp_path / "log", command_config=str(path)).endpoints


def test_a_client_of_an_own_cluster_connects_plainly() -> None:
    assert client_security(PLAIN, ("b:9092",)) == {}
    connection = connection_to(PLAIN, "a:1")
    assert type(connection) is BrokerConnection


def test_a_client_of_a_secured_cluster_logs_in(secured: Endpoints) -> None:
    assert isinstance(connection_to(secured, "a:1"), SecureConnection)
    assert client_security(secured, ("b:9092",)) == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "w",
        "sasl_plain_password": "hush",
    }


def test_the_configuration_of_a_client_has_no_password(secured: Endpoints) -> None:
    assert b"hush" not in msgspec.json.encode(secured)


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    gone = Endpoints(status="s", stop="t", command_config=str(tmp_path / "gone.properties"))
    with pytest.raises(UsageError):
        client_security(gone, ("b:9092",))
