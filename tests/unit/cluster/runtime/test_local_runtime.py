"""The local runtime's JVMs: what they are told of the run's folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.host.ledger import Ledger
from cluster.runtime import local
from cluster.runtime.base import RuntimeSettings
from cluster.runtime.jvm import Installation
from cluster.runtime.local import LocalRuntime
from ebbtide.java import Java
from ebbtide.scenario.model import ClusterSpec

_TMPDIR = "-Djava.io.tmpdir="


class EndedChild:
    """A child that ended well."""

    def wait(self, _timeout_s: float) -> int:
        return 0


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Those of the children, none of which is started."""
    seen: list[Sequence[str]] = []

    def start(_ledger: Ledger, command: Sequence[str], **_how: Any) -> EndedChild:
        seen.append(command)
        return EndedChild()

    monkeypatch.setattr(local, "start_child", start)
    return seen


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalRuntime]:
    installation = Installation(
        kafka="4.3.1",
        jars=(tmp_path / "a.jar",),
        folder=tmp_path,
        java=Java(executable=Path("/java"), version="17", major=17),
    )
    settings = RuntimeSettings(
        spec=ClusterSpec(brokers=1),
        kafka="4.3.1",
        folder=tmp_path / "run",
        ledger=Ledger.open("run", tmp_path, ledgers=tmp_path / "ledgers"),
        power_loss_method="truncate",
    )
    made = LocalRuntime(installation, settings)
    monkeypatch.setattr(made.network, "add_namespace", lambda node_id: Path(f"/netns/{node_id}"))
    yield made
    made.close()


def test_what_a_killed_jvm_unpacked_goes_with_its_cluster(
    runtime: LocalRuntime, commands: list[Sequence[str]], tmp_path: Path
) -> None:
    runtime._make_node_places()
    runtime._lay_out()
    told = {word.removeprefix(_TMPDIR) for command in commands for word in command if word.startswith(_TMPDIR)}
    (folder,) = map(Path, told)
    # Of no node's volume, which a fault may break.
    assert not any(folder.is_relative_to(runtime.data_dir(node).parent) for node in runtime.nodes)
    (folder / "liblz4-java-1.so").touch()
    runtime.close()
    assert not list((tmp_path / "run").rglob("*.so"))


def test_where_nothing_may_be_executed_a_jvm_unpacks_elsewhere(
    runtime: LocalRuntime, commands: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local.os, "statvfs", lambda _folder: SimpleNamespace(f_flag=os.ST_NOEXEC))
    runtime._make_node_places()
    runtime._lay_out()
    assert commands
    assert not [word for command in commands for word in command if word.startswith(_TMPDIR)]
