"""Which image stands for a release, what is said without Docker, and the compose file of a cluster of others."""

from __future__ import annotations

import io
import os
import re
import socket
import ssl
import subprocess
import tarfile
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from checkout import ROOT
from docker.errors import ImageNotFound

from cluster.host import containers as daemon
from cluster.host.containers import DockerError, connect
from cluster.images import build
from cluster.images.build import why_not_buildable
from cluster.images.find import CLASS_ARCHIVE, find_image, official_reference, own_reference
from cluster.snapshot.security import security_from
from ebbtide.errors import HarnessError, UsageError


def _client(*references: str) -> Any:
    """A daemon that has these images."""

    def get(reference: str) -> Any:
        if reference not in references:
            raise ImageNotFound(reference)
        return MagicMock(id=f"sha256:{reference}", labels={CLASS_ARCHIVE: "true"} if "ebbtide" in reference else {})

    client = MagicMock()
    client.images.get.side_effect = get
    return client


def test_the_official_image_comes_before_the_one_built_here() -> None:
    image = find_image(_client(own_reference("4.3.1"), official_reference("4.3.1")), "4.3.1")
    assert image is not None
    assert (image.reference, image.class_archive) == ("apache/kafka:4.3.1", False)


def test_the_image_built_here_comes_where_there_is_no_official_one() -> None:
    image = find_image(_client(own_reference("4.3.1"), official_reference("4.2.1")), "4.3.1")
    assert image is not None
    assert (image.reference, image.class_archive) == ("ebbtide/kafka:4.3.1", True)
    assert "apache/kafka:4.3.1 is not here" in image.why


def test_an_image_that_was_named_is_taken_before_all_others() -> None:
    image = find_image(_client("mine:1", official_reference("4.3.1")), "4.3.1", "mine:1")
    assert image is not None
    assert (image.reference, image.why) == ("mine:1", "named by the user")


def test_a_named_image_that_is_not_here_is_an_error_and_nothing_else_is_taken() -> None:
    with pytest.raises(UsageError) as caught:
        find_image(_client(official_reference("4.3.1")), "4.3.1", "mine:1")
    assert caught.value.next == "docker pull mine:1"


@pytest.fixture
def no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_context")
def test_no_daemon_at_the_address_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/socket")
    with pytest.raises(DockerError, match="no Docker daemon at this address") as caught:
        connect()
    assert str(tmp_path) in str(caught.value)
    assert "--runtime" not in str(caught.value), "`ebbtide kafka image` has no such option"


@pytest.mark.usefixtures("no_context")
def test_a_daemon_that_does_not_answer_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "ANSWER_TIMEOUT_S", 0.2)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/socket")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "socket"))
        silent.listen()
        with pytest.raises(DockerError, match="does not answer"):
            connect()


@pytest.mark.usefixtures("no_context")
def test_no_permission_on_the_socket_names_the_docker_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setenv("DOCKER_HOST", "unix:///run/docker-of-others")
    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(DockerError, match="no permission") as caught:
        connect()
    assert caught.value.next is not None
    assert "docker group" in caught.value.next or "usermod -aG docker" in caught.value.next


@pytest.mark.usefixtures("no_context")
def test_an_address_that_is_none_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "nonsense://x")
    with pytest.raises(DockerError):
        connect()


@pytest.mark.parametrize(("tool", "package"), [("_jlink", "default-jdk-headless"), ("_busybox", "busybox-static")])
def test_a_missing_tool_is_named_with_its_package(
    tool: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_jlink", lambda: Path("jlink"))
    monkeypatch.setattr(build, "_busybox", lambda: Path("busybox"))
    monkeypatch.setattr(build, tool, lambda: None)
    assert package in str(why_not_buildable("4.3.1"))
    with pytest.raises(HarnessError, match=package):
        build.make_rootfs(tmp_path / "rootfs")


def test_a_release_that_is_not_here_cannot_be_built_without_maven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "missing_tool", lambda: None)
    monkeypatch.setenv("EBBTIDE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no Maven" in str(why_not_buildable("4.3.1"))


def test_the_context_is_the_same_for_the_same_files(tmp_path: Path) -> None:
    contexts = []
    for time_s in (1_000_000_000, 2_000_000_000):
        folder = tmp_path / str(time_s)
        jars = [folder / "b.jar", folder / "a-1.jar"]
        (folder / "rootfs" / "tmp").mkdir(parents=True)
        (folder / "rootfs" / "tmp").chmod(0o1777)
        (folder / "rootfs" / "sh").symlink_to("/bin/busybox")
        for jar in jars:
            jar.write_bytes(b"jar")
            os.utime(jar, (time_s, time_s))
        context = io.BytesIO()
        build._write_context(context, folder / "rootfs", jars)
        contexts.append(context.getvalue())
    assert contexts[0] == contexts[1]
    with tarfile.open(fileobj=io.BytesIO(contexts[0])) as tar:
        assert [name for name in tar.getnames() if name.startswith("jars/")] == ["jars/a-1.jar", "jars/b.jar"]
        assert tar.getmember("rootfs/tmp").mode == 0o1777
        assert tar.getmember("rootfs/sh").linkname == "/bin/busybox"
        assert tar.getmember("start-node").mode == 0o755


def test_compose_publishes_on_loopback_only_and_no_port_twice() -> None:
    published = [
        port
        for file in (ROOT / "compose").glob("*.yaml")
        for listing in re.findall(r"^\s+ports: \[(.*)\]", file.read_text(), re.MULTILINE)
        for port in re.findall(r'"([^"]*)"', listing)
    ]
    assert len(published) == 14
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []
    assert len(set(published)) == len(published)


FILE = (ROOT / "compose" / "foreign.yaml").read_text()
NODES = re.findall(r"^  ((?:controller|broker)-\d+):\n    <<", FILE, flags=re.M)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    subprocess.run([ROOT / "compose" / "make-certificates", folder], check=True, capture_output=True)
    return folder


def test_it_has_three_controllers_and_three_brokers() -> None:
    assert sorted(NODES) == ["broker-1", "broker-2", "broker-3", "controller-100", "controller-101", "controller-102"]


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
