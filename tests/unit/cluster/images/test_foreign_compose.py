"""The compose file of a cluster that is not Ebbtide's own: nothing listens outside, and its certificates fit it."""

from __future__ import annotations

import re
import ssl
import subprocess
from pathlib import Path

import pytest
from checkout import ROOT

from cluster.snapshot.security import security_from

FILE = (ROOT / "compose" / "foreign.yaml").read_text()
NODES = re.findall(r"^  ((?:controller|broker)-\d+):\n    <<", FILE, flags=re.M)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    subprocess.run([ROOT / "compose" / "make-certificates", folder], check=True, capture_output=True)
    return folder


def test_it_has_three_controllers_and_three_brokers() -> None:
    assert sorted(NODES) == ["broker-1", "broker-2", "broker-3", "controller-100", "controller-101", "controller-102"]


def test_nothing_listens_outside_of_this_host() -> None:
    ports = re.findall(r'ports: \["(.+)"\]', FILE)
    assert len(ports) == len(NODES)
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_listener_has_tls_and_sasl() -> None:
    (protocols,) = re.findall(r"SECURITY_PROTOCOL_MAP: (.+)", FILE)
    assert {one.partition(":")[2] for one in protocols.split(",")} == {"SASL_SSL"}


def test_the_client_properties_are_ones_that_ebbtide_reads(certificates: Path) -> None:
    security = security_from(certificates / "client.properties")
    assert security.login is not None
    assert f'user_{security.login.username}="{security.login.password}"' in FILE
    assert security.tls_context().verify_mode == ssl.CERT_REQUIRED


def test_the_certificate_names_every_node_and_this_host(certificates: Path) -> None:
    shown = ["openssl", "x509", "-noout", "-ext", "subjectAltName", "-in", certificates / "node.pem"]
    names = subprocess.run(shown, check=True, capture_output=True, text=True).stdout
    assert all(f"DNS:{node}" in names for node in (*NODES, "localhost"))
    assert "IP Address:127.0.0.1" in names
