"""A fault of one of a broker's log directories touches that one alone, and says which logs were in it."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import evidence_builders as build
import pytest

from cluster.runtime.base import DiskReplacement
from ebbtide.errors import HarnessError
from ebbtide.record.node_times import NodeTimes
from ebbtide.scenario.roles import Role
from ebbtide.scenario.steps.disk import FailDiskStep, SlowDiskStep, WipeDiskStep
from ebbtide.scenario.validate_order import FaultNow
from ebbtide.scenario.words import Duration
from faults import disk
from faults.injector import Injector

TWO_S = Duration("2s")


class OneVolume:
    """A volume that refuses writes with `error`."""

    def __init__(self, image: Path) -> None:
        self.image = str(image)
        self.error: int | None = None
        self.done: list[str] = []

    def write_error(self) -> int | None:
        return self.error

    def fill(self) -> int:
        self.error = errno.ENOSPC
        return 4096

    def free(self) -> None:
        self.error = None

    def shut_down(self) -> bool:
        self.error = errno.EIO
        return True

    def unmount(self) -> None:
        self.done.append("unmount")

    def mount(self) -> None:
        self.done.append("mount")
        self.error = None


class TwoDirectories:
    """A running broker: t-0 is in directory 1, t-1 in directory 2."""

    def __init__(self, folder: Path) -> None:
        self.folders = (folder / "one", folder / "two")
        for at, data in enumerate(self.folders):
            build.write_log(data / f"t-{at}", build.plain_batch(0, b"one", b"two"))
        self.volumes = [OneVolume(folder / f"{at}.img") for at in (1, 2)]
        self.running = True
        self.replaced: list[int | None] = []

    def data_dirs(self, node_id: int) -> tuple[Path, ...]:
        return self.folders

    def volume(self, node_id: int, directory: int) -> OneVolume:
        return self.volumes[directory - 1]

    def process_times(self, node_id: int) -> NodeTimes:
        return NodeTimes()

    def pid(self, node_id: int) -> int | None:
        return 1 << 30 if self.running else None

    def pause(self, node_id: int) -> None: ...

    def resume(self, node_id: int) -> None: ...

    def kill(self, node_id: int) -> None:
        self.running = False

    def replace_disk(self, node_id: int, directory: int | None) -> DiskReplacement:
        self.replaced.append(directory)
        return DiskReplacement(lost_bytes=0, logs={}, left=(), cluster_id_before="C", cluster_id="C")


@pytest.fixture
def runtime(tmp_path: Path) -> Any:
    return TwoDirectories(tmp_path)


def test_the_other_volume_goes_on(runtime: Any) -> None:
    effect = disk.Trouble(runtime, 1, 2).fail()
    assert effect.proof == {"probe": "ok", "directory": 2, "holds": ["t-1"], "refused": "EIO"}
    assert [one.error for one in runtime.volumes] == [None, errno.EIO]
    assert runtime.running


def test_without_a_directory_all_volumes_fail_and_the_proof_names_none(runtime: Any) -> None:
    effect = disk.Trouble(runtime, 1).fail()
    assert effect.proof == {"probe": "ok", "refused": "EIO"}
    assert [one.error for one in runtime.volumes] == [errno.EIO, errno.EIO]


def test_a_volume_of_several_that_does_not_fail_takes_the_proof_away(runtime: Any) -> None:
    runtime.volumes[0].shut_down = lambda: True
    effect = disk.Trouble(runtime, 1).fail()
    assert (effect.effect_ns, effect.why) == (None, "the volume still takes writes")


def test_a_mend_mounts_the_volume_of_the_directory_and_measures_its_logs(runtime: Any) -> None:
    trouble = disk.Trouble(runtime, 1, 2)
    trouble.fail()
    build.write_log(runtime.folders[1] / "t-1", build.plain_batch(0, b"one"))
    effect, lost = trouble.mend()
    assert effect.effect_ns is not None
    assert [one.done for one in runtime.volumes] == [[], ["unmount", "mount"]]
    assert {name: log.leo_after for name, log in lost.items()} == {"t-1": 1}
    assert not runtime.running, "it opens the directory only when it starts"


def test_a_broker_whose_full_directory_is_mended_must_start_again(runtime: Any) -> None:
    trouble = disk.Trouble(runtime, 1, 2)
    assert trouble.fill().proof["holds"] == ["t-1"]
    trouble.mend()
    assert not runtime.running


def test_a_volume_that_cannot_be_slowed_down_leaves_no_other_slow(runtime: Any) -> None:
    ended: list[int] = []

    def slow_down(node_id: int, delay_s: float, period_s: float, directory: int) -> Any:
        if directory == 2:
            raise HarnessError("no process for it")
        return SimpleNamespace(end=lambda: ended.append(directory))

    runtime.slow_down = slow_down
    trouble = disk.Trouble(runtime, 1)
    with pytest.raises(HarnessError):
        trouble.slow(0.1, 1.0)
    trouble.mend()
    assert ended == [1]


def test_a_replaced_disk_is_that_of_the_directory(runtime: Any) -> None:
    runtime.pid = lambda node_id: None
    effect = disk.wipe_disk(runtime, 1, 2)
    assert runtime.replaced == [2]
    assert (effect.proof["directory"], effect.proof["holds"]) == (2, ["t-1"])


def test_a_step_with_a_directory_acts_on_it(runtime: Any) -> None:
    view = SimpleNamespace(resolve=lambda role: (1,))
    runtime.nodes = {1: SimpleNamespace(name="broker-1")}
    injector = Injector(runtime, view, lambda: None)  # type: ignore[arg-type]
    injector.add(disk.DiskFaults(injector).family)
    plan = injector.plan(FailDiskStep(target=Role("broker(1)"), directory=2))
    effect = plan.act()
    assert plan.description == "broker-1, log directory 2"
    assert effect.proof["directory"] == 2  # type: ignore[union-attr]
    assert (injector.troubled, injector.down) == ({1: FaultNow("fail-disk", 1, spares_first=True)}, {1})
    missing = injector.plan(SlowDiskStep(target=Role("broker(1)"), directory=3, delay=Duration("1s"), period=TWO_S))
    assert missing.description == "broker-1, log directory 3"
    injector.troubled.clear()
    assert missing.act().why == "broker-1 has no log directory 3, but 2"  # type: ignore[union-attr]
    injector.down.clear()
    unwiped = injector.plan(WipeDiskStep(target=Role("broker(1)"), directory=3)).act()
    assert unwiped.why == "broker-1 has no log directory 3, but 2"  # type: ignore[union-attr]
    assert injector.down == set(), "a broker that nothing touched is not expected to end"
    injector.troubled[1] = FaultNow("fail-disk", 1)
    again = injector.plan(FailDiskStep(target=Role("broker(1)"), directory=1)).act()
    assert "mend-disk first" in str(again.why)  # type: ignore[union-attr]
