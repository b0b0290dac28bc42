"""What a runtime tells of a power loss: whether there was anything to lose, asked before the volume is shut down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import Mock

import evidence_builders as build
import pytest

from cluster.host.volumes import Volume
from cluster.runtime.base import NodeInfo, NodeReleases, PowerLossMethod
from cluster.runtime.cluster import Runtime
from cluster.runtime.disks import NodeDisks
from ebbtide.scenario.model import ClusterSpec
from faults import disk

NODE = NodeInfo(id=1, role="broker", name="broker-1", address="")


class Lossy(Volume, frozen=True, kw_only=True):
    """A folder that loses what was planted when it is shut down, as long as nobody wrote it back."""

    def shut_down(self) -> bool:
        (Path(self.folder) / ".ebbtide-not-synced").write_bytes(b"")
        return True

    def unmount(self) -> None: ...

    def mount(self) -> None: ...


class OneNode(Runtime):
    """One broker that is down."""

    name = "one node"

    def __init__(self, folder: Path, method: PowerLossMethod = "fs-shutdown") -> None:
        self.nodes = {1: NODE}
        self.power_loss_method = method
        self.releases = NodeReleases(self.nodes, "4.3.1")
        self._write_back = None
        self._write_back_watch = None
        self._folder = folder
        self._processes, self._incarnations, self._quorum = {}, {}, Mock()
        self._disks = NodeDisks(self._cluster, self.nodes, ClusterSpec(), Mock())
        build.write_log(self.data_dir(1) / "t-0", build.plain_batch(0, b"one"))
        if method == "fs-shutdown":
            self._disks._volumes[1] = [Lossy(image="", folder=str(self._disks.folders(1)[0]))]

    def require_release(self, kafka: str) -> None: ...

    def _make_node_places(self) -> None: ...

    def _run_formatting(self, node_ids: Sequence[int]) -> Mapping[int, int]:
        return {}

    def _start_servers(self, node_ids: Sequence[int]) -> None: ...

    def _namespace(self, node_id: int) -> Path:
        return Path()


def test_a_power_loss_that_had_nothing_to_take_is_not_proven(tmp_path: Path) -> None:
    runtime = OneNode(tmp_path)
    runtime.start([1])
    assert disk.power_loss(runtime, 1).why is None
    again = disk.power_loss(runtime, 1)
    assert (again.effect_ns, again.proof["unsynced_there"]) == (None, False)
    assert "nothing was left to lose" in str(again.why)
    runtime.start([1])
    assert disk.power_loss(runtime, 1).why is None


def test_a_power_loss_after_which_what_was_not_fsynced_is_there_is_not_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = OneNode(tmp_path)
    runtime.start([1])
    monkeypatch.setattr(Lossy, "shut_down", lambda _volume: True)
    assert "what was not fsynced survived" in str(disk.power_loss(runtime, 1).why)


class Changed:
    """A watch that saw another harness end the hold."""

    def look(self) -> str:
        return "something outside of the run changed the kernel's write-back"


def test_a_power_loss_after_another_harness_ended_the_hold_is_not_proven(tmp_path: Path) -> None:
    runtime = OneNode(tmp_path)
    runtime.start([1])
    runtime._write_back_watch = Changed()  # type: ignore[assignment]
    effect = disk.power_loss(runtime, 1)
    assert (effect.effect_ns, effect.why) == (None, Changed().look())
    assert effect.proof["write_back_change"] == Changed().look()


def test_where_logs_are_cut_back_instead_nothing_is_said_of_a_volume(tmp_path: Path) -> None:
    effect = disk.power_loss(OneNode(tmp_path, "truncate"), 1)
    assert effect.effect_ns is not None
    assert set(effect.proof) == {"probe", "pid", "method", "lost_bytes", "logs"}
    assert effect.proof["logs"]["t-0"]["leo_after"] == 0
