"""What a power loss took, if there was anything to lose; and a torn write, whose damage a reader finds."""

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
from ebbtide.logs.segments import leo_of, segment_files
from ebbtide.scenario.model import ClusterSpec
from faults import disk, power
from faults.power import PAGE_BYTES

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


class TornLogNode(OneNode):
    """One broker whose log has two flushed records and many that were not."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        log = self.data_dir(1) / "t-0"
        flushed = [build.plain_batch(offset, b"x" * 900) for offset in (0, 1)]
        segment = build.write_log(log, *flushed)
        self.flushed = segment.read_bytes()
        build.write_log(log, *flushed, *(build.plain_batch(offset, b"y" * 900) for offset in range(2, 20)))
        self.written = segment.read_bytes()


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TornLogNode:
    made = TornLogNode(tmp_path)

    def mount(_volume: Lossy) -> None:
        (segment,) = segment_files(made.data_dir(1) / "t-0").values()
        segment.write_bytes(made.flushed)

    monkeypatch.setattr(Lossy, "mount", mount)
    made.start([1])
    return made


def test_half_of_the_first_lost_page_is_there_and_zeros_for_the_other_half(runtime: TornLogNode) -> None:
    effect = power.torn_write(runtime, 1)
    assert effect.why is None
    (segment,) = segment_files(runtime.data_dir(1) / "t-0").values()
    now, start = segment.read_bytes(), len(runtime.flushed)
    half = start + (PAGE_BYTES - start + 1) // 2
    assert now == runtime.written[:half] + bytes(PAGE_BYTES - half)
    assert effect.proof["torn"]["t-0"] == {
        "segment": segment.name,
        "position": start,
        "arrived_bytes": half - start,
        "zero_bytes": PAGE_BYTES - half,
        "damage": "checksum",
    }


def test_the_log_ends_where_recovery_will_cut_it_and_what_arrived_is_not_counted_as_lost(runtime: TornLogNode) -> None:
    proof = power.torn_write(runtime, 1).proof
    log = proof["logs"]["t-0"]
    assert (log["leo_before"], log["leo_after"]) == (20, leo_of(runtime.data_dir(1) / "t-0"))
    assert 2 <= log["leo_after"] < 20
    assert proof["lost_bytes"] == len(runtime.written) - len(runtime.flushed) - proof["torn"]["t-0"]["arrived_bytes"]
    assert list(runtime.data_dir(1).parent.parent.glob("*.torn")) == []


def test_a_power_loss_that_took_nothing_has_no_page_to_tear(runtime: TornLogNode) -> None:
    runtime.flushed = runtime.written
    effect = power.torn_write(runtime, 1)
    assert (effect.effect_ns, effect.proof["torn"]) == (None, {})
    assert "no log had a page to tear" in str(effect.why)


def test_where_power_was_not_lost_that_is_said_and_not_the_tear(
    runtime: TornLogNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lossy, "shut_down", lambda _volume: False)
    assert "still accepted writes" in str(power.torn_write(runtime, 1).why)
