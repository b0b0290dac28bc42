"""Which runtime is taken and why, that all have one interface, and which images a container starts from."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_runtime import FakeNetwork, FakeRuntime

from cluster.host import containers
from cluster.host.bridge import BridgeNetwork
from cluster.host.processes import identify
from cluster.images.find import Image
from cluster.runtime import docker_node
from cluster.runtime.choose import DockerChoice, LocalChoice, check_options, choose_runtime
from cluster.runtime.cluster import Runtime
from cluster.runtime.docker import DockerRuntime
from cluster.runtime.docker_node import exit_status_of
from cluster.runtime.jvm import JavaProgram
from cluster.runtime.local import LocalRuntime
from ebbtide.errors import EbbtideError, UsageError
from ebbtide.privileges import PRIVILEGES_VARIABLE


def _silent(_: str) -> None:
    pass


def test_local_is_taken_when_asked_for_and_no_daemon_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "open_client", None)
    assert choose_runtime("local", "4.3.1", None, _silent) == LocalChoice()


def test_without_a_daemon_auto_is_local_and_says_why_and_docker_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    why = choose_runtime("auto", "4.3.1", None, _silent).describe()
    assert why.startswith("runtime local: no Docker daemon at this address")
    assert f"{tmp_path}/none" in why
    with pytest.raises(EbbtideError, match="no Docker daemon"):
        choose_runtime("docker", "4.3.1", None, _silent)
    with pytest.raises(EbbtideError, match="no Docker daemon"):
        choose_runtime("auto", "4.3.1", "apache/kafka:4.3.1", _silent)


def test_a_daemon_elsewhere_is_refused_without_asking_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    with pytest.raises(EbbtideError, match="a daemon on this host"):
        choose_runtime("docker", "4.3.1", None, _silent)
    assert "tcp://192.0.2.1:2375" in choose_runtime("auto", "4.3.1", None, _silent).describe()


def test_root_of_a_user_namespace_does_not_take_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv(PRIVILEGES_VARIABLE, "user namespace")
    assert "user namespace" in choose_runtime("auto", "4.3.1", None, _silent).describe()


def test_an_image_and_a_runtime_that_contradict_each_other_are_refused() -> None:
    check_options("auto", "apache/kafka:3.9.1", 1)
    with pytest.raises(UsageError, match="docker runtime"):
        check_options("local", "apache/kafka:3.9.1", 1)
    with pytest.raises(UsageError, match="one release"):
        check_options("docker", "apache/kafka:3.9.1", 2)


def test_the_choice_of_docker_says_which_image_and_why() -> None:
    image = Image(reference="ebbtide/kafka:4.3.1", id="sha256:1", why="built on this host")
    choice = DockerChoice(image=image, daemon="20.10")
    assert choice.describe() == "runtime docker: daemon 20.10 answers, image ebbtide/kafka:4.3.1 (built on this host)"
    assert choice.host_facts()["image_id"] == "sha256:1"


@pytest.mark.parametrize(
    ("exit_code", "status"), [(0, 0), (1, 1), (137, -signal.SIGKILL), (134, -signal.SIGABRT), (143, 143), (255, 255)]
)
def test_an_exit_code_of_docker_is_a_signal_unless_the_jvm_handles_it(exit_code: int, status: int) -> None:
    assert exit_status_of(exit_code) == status


def test_the_owner_of_a_label_is_one_process_of_one_boot() -> None:
    labels = containers.labels_of("r")
    assert labels["org.ebbtide.run"] == "r"
    assert containers._is_owner_alive(labels)
    me = identify(os.getpid())
    for other in (f"{me.boot_id}/{me.start_ticks + 1}", f"another-boot/{me.start_ticks}"):
        assert not containers._is_owner_alive({**labels, containers.STARTED: other})
    # Made by someone else under a label of that name: left alone.
    assert containers._is_owner_alive({"org.ebbtide.run": "r"})


def _public(kind: type) -> dict[str, Callable[..., object]]:
    return {name: member for name, member in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def _parameters(function: Callable[..., object]) -> list[tuple[str, object]]:
    return [(one.name, one.default) for one in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize(
    ("kind", "interface"),
    [(LocalRuntime, Runtime), (DockerRuntime, Runtime), (FakeRuntime, Runtime), (FakeNetwork, BridgeNetwork)],
)
def test_what_stands_for_a_runtime_or_a_network_has_its_interface(kind: type, interface: type) -> None:
    wanted, has = _public(interface), _public(kind)
    assert has.keys() <= wanted.keys()
    for name in wanted.keys() & has.keys():
        assert _parameters(has[name]) == _parameters(wanted[name]), name


@pytest.mark.parametrize(
    ("kafka", "jar", "exit_code"),
    [
        ("4.3.1", "kafka_2.13-4.3.1.jar", 0),
        ("4.3.1", "kafka_2.13-4.3.10.jar", docker_node.WRONG_RELEASE),
        ("4.5.0", "kafka_2.13-4.5.0-SNAPSHOT.jar", 0),
        ("4.5.0-SNAPSHOT@0123abcd", "kafka_2.13-4.3.1.jar", 0),
        ("4.5.0-SNAPSHOT@0123abcd", "other.jar", docker_node.WRONG_RELEASE),
    ],
)
def test_an_image_of_another_release_ends_at_once(
    kafka: str, jar: str, exit_code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, content in (("libs/" + jar, ""), ("gate", "run\n"), ("java", '#!/bin/sh\necho "$@"\n')):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(content)
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setattr(docker_node, "LIBS", tmp_path / "libs")
    image, log = Image(reference="mine/kafka:dev", id="1", why="named"), tmp_path / "log"
    script = docker_node._script(tmp_path / "gate", log, image, kafka, {"run": JavaProgram(main="M", arguments=())})
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert subprocess.run(["/bin/sh", "-c", script], env=environment, check=False).returncode == exit_code
    assert str(tmp_path / "libs") in log.read_text()
