"""Disk faults on volumes that may lie: proven by what a volume does; a fault of one directory touches no other."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import evidence_builders as build
import pytest

from cluster.runtime.base import DiskReplacement, LogLoss
from ebbtide import run_clock
from ebbtide.errors import HarnessError
from ebbtide.record.node_times import NodeTimes
from ebbtide.scenario.steps.disk import FailDiskStep, SlowDiskStep, WipeDiskStep
from ebbtide.scenario.validate_order import FaultNow
from ebbtide.scenario.words import Duration, Role
from faults import disk
from faults.base import Effect
from faults.injector import Injector

LOG = LogLoss(bytes_before=9, bytes_after=0, lost_bytes=9, leo_before=2, leo_after=0)


class FakeVolume:
    """Refuses writes with `error` (None: takes them); `obeys`: a fault sets the error that it asks for."""

    def __init__(self, folder: Path, number: int, *, obeys: bool) -> None:
        self.image = str(folder / f"{number}.img")
        self.folder = str(folder)
        self.error: int | None = None
        self.heals = True
        self.done: list[str] = []
        self._obeys = obeys

    def write_error(self) -> int | None:
        return self.error

    def fill(self) -> int:
        self._fail("fill", errno.ENOSPC)
        return 4096

    def free(self) -> None:
        self._heal("free")

    def set_read_only(self) -> None:
        self._fail("read-only", errno.EROFS)

    def shut_down(self) -> bool:
        self._fail("shut down", errno.EIO)
        return True

    def unmount(self) -> None:
        self.done.append("unmount")

    def mount(self) -> None:
        self._heal("mount")

    def _fail(self, what: str, error: int) -> None:
        self.done.append(what)
        if self._obeys:
            self.error = error

    def _heal(self, what: str) -> None:
        self.done.append(what)
        if self.heals:
            self.error = None


class FakePulses:
    """Freezes the volume, or only says that it runs; `status`: it ended."""

    def __init__(self, *, freezes: bool, status: int | None = None) -> None:
        self._freezes = freezes
        self._status = status

    def wait_frozen(self, within_s: float) -> bool:
        return self._freezes

    def end_status(self) -> int | None:
        return self._status


class FakeRuntime:
    """A node that runs: t-0 is in its first log directory, t-1 in its second one."""

    def __init__(self, folder: Path, directories: int = 1) -> None:
        self.folders = tuple(folder / f"data-{number}" for number in range(directories))
        for number, data in enumerate(self.folders):
            build.write_log(data / f"t-{number}", build.plain_batch(0, b"one", b"two"))
        self.volumes = [FakeVolume(folder, number, obeys=directories > 1) for number in range(directories)]
        self.pulses = FakePulses(freezes=True)
        self.running = True
        self.signals: list[str] = []
        self.replaced: list[int | None] = []
        self.new = DiskReplacement(lost_bytes=9, logs={"t-0": LOG}, left=(), cluster_id_before="C", cluster_id="C")

    def volume(self, node_id: int, directory: int) -> FakeVolume:
        return self.volumes[directory - 1]

    def slow_down(self, node_id: int, delay_s: float, period_s: float, directory: int) -> FakePulses:
        return self.pulses

    def data_dirs(self, node_id: int) -> tuple[Path, ...]:
        return self.folders

    def process_times(self, node_id: int) -> NodeTimes:
        return NodeTimes()

    def pid(self, node_id: int) -> int | None:
        return 1 << 30 if self.running else None

    def pause(self, node_id: int) -> None:
        self.signals.append("pause")

    def resume(self, node_id: int) -> None:
        self.signals.append("resume")

    def kill(self, node_id: int) -> None:
        self.running = False
        self.signals.append("kill")

    def replace_disk(self, node_id: int, directory: int | None = None) -> DiskReplacement:
        self.replaced.append(directory)
        return self.new


@pytest.fixture
def runtime(tmp_path: Path) -> FakeRuntime:
    return FakeRuntime(tmp_path)


@pytest.fixture
def two(tmp_path: Path) -> Any:
    """A node with two log directories, whose volumes do what a fault asks for."""
    return FakeRuntime(tmp_path, directories=2)


@pytest.fixture
def trouble(runtime: FakeRuntime) -> disk.Trouble:
    return disk.Trouble(runtime, 1)  # type: ignore[arg-type]


def reason_of(effect: Effect) -> str:
    assert (effect.effect_ns is None) == (effect.why is not None)
    return effect.why or ""


def test_a_replaced_disk_is_proven_by_being_empty_and_of_the_same_cluster(runtime: FakeRuntime) -> None:
    effect = disk.wipe_disk(runtime, 1)  # type: ignore[arg-type]
    assert not reason_of(effect)
    assert effect.proof["lost_bytes"] == 9
    assert effect.proof["logs"]["t-0"]["leo_after"] == 0


def test_a_disk_that_still_holds_a_partition_was_not_replaced(runtime: FakeRuntime) -> None:
    runtime.new = DiskReplacement(lost_bytes=9, logs={}, left=("t-0",), cluster_id_before="C", cluster_id="C")
    assert "not empty: t-0" in reason_of(disk.wipe_disk(runtime, 1))  # type: ignore[arg-type]


@pytest.mark.parametrize("cluster_id", ["D", None])
def test_a_disk_of_another_cluster_is_another_experiment(runtime: FakeRuntime, cluster_id: str | None) -> None:
    runtime.new = DiskReplacement(lost_bytes=9, logs={}, left=(), cluster_id_before="C", cluster_id=cluster_id)
    assert "not C" in reason_of(disk.wipe_disk(runtime, 1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (disk.Trouble.fill, errno.ENOSPC),
        (disk.Trouble.set_read_only, errno.EROFS),
        (disk.Trouble.fail, errno.EIO),
    ],
)
@pytest.mark.parametrize("error", [None, errno.EPERM, errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_volume_in_trouble_is_proven_by_its_own_error_of_a_write(
    runtime: FakeRuntime, trouble: disk.Trouble, act: object, expected: int, error: int | None
) -> None:
    assert callable(act)
    runtime.volumes[0].error = error
    reason = reason_of(act(trouble))
    if error is None:
        assert "still takes writes" in reason
    else:
        assert reason == ("" if error == expected else f"the volume refuses writes with {errno.errorcode[error]}")


def test_a_full_volume_is_freed_and_nothing_is_lost_or_killed(runtime: FakeRuntime, trouble: disk.Trouble) -> None:
    trouble.fill()
    runtime.volumes[0].error = errno.ENOSPC
    effect, lost = trouble.mend()
    assert (reason_of(effect), lost, runtime.signals) == ("", {}, [])
    assert runtime.volumes[0].done == ["fill", "free"]


def test_a_dead_volume_is_mounted_anew_once_nobody_runs_on_it_and_its_losses_are_measured(
    runtime: FakeRuntime, trouble: disk.Trouble
) -> None:
    began_ns = run_clock.now_ns()
    gone = trouble.fail().of_node[1].log_gone
    assert gone is not None
    assert began_ns <= gone.first_ns <= gone.last_ns <= run_clock.now_ns()
    assert runtime.signals == ["pause", "resume"]
    (runtime.folders[0] / "t-0" / build.segment_name(0)).write_bytes(b"")
    runtime.volumes[0].error = errno.EIO
    effect, lost = trouble.mend()
    assert not reason_of(effect)
    assert (lost["t-0"].leo_before, lost["t-0"].leo_after) == (2, 0)
    assert runtime.signals[-1] == "kill"
    assert runtime.volumes[0].done == ["shut down", "unmount", "mount"]


def test_a_volume_that_still_refuses_writes_was_not_mended(runtime: FakeRuntime, trouble: disk.Trouble) -> None:
    trouble.fill()
    runtime.volumes[0].error, runtime.volumes[0].heals = errno.ENOSPC, False
    effect, _ = trouble.mend()
    assert "refuses a write" in reason_of(effect)


@pytest.mark.parametrize(
    ("pulses", "write_s", "reason"),
    [
        (FakePulses(freezes=True), 0.1, ""),
        (FakePulses(freezes=True), 0.01, "no write took 0.1 s"),
        (FakePulses(freezes=False), 0.1, "was not frozen within"),
        (FakePulses(freezes=False, status=1), 0.1, "ended with status 1"),
    ],
)
def test_a_slow_volume_is_proven_by_a_slow_write_after_it_was_frozen_and_not_by_one_that_is_slow_anyway(
    runtime: FakeRuntime,
    trouble: disk.Trouble,
    monkeypatch: pytest.MonkeyPatch,
    pulses: FakePulses,
    write_s: float,
    reason: str,
) -> None:
    runtime.pulses = pulses
    monkeypatch.setattr(disk, "_WRITE_TIMEOUT_S", 0.0)
    monkeypatch.setattr(disk, "timed_write", lambda _folder, _timeout_s: write_s)
    told = reason_of(trouble.slow(delay_s=0.1, period_s=0.2))
    assert reason in told
    assert bool(reason) == bool(told)


TWO_S = Duration("2s")


def test_the_other_volume_goes_on(two: Any) -> None:
    effect = disk.Trouble(two, 1, 2).fail()
    assert effect.proof == {"probe": "ok", "directory": 2, "holds": ["t-1"], "refused": "EIO"}
    assert [one.error for one in two.volumes] == [None, errno.EIO]
    assert two.running


def test_without_a_directory_all_volumes_fail_and_the_proof_names_none(two: Any) -> None:
    effect = disk.Trouble(two, 1).fail()
    assert effect.proof == {"probe": "ok", "refused": "EIO"}
    assert [one.error for one in two.volumes] == [errno.EIO, errno.EIO]


def test_a_volume_of_several_that_does_not_fail_takes_the_proof_away(two: Any) -> None:
    two.volumes[0].shut_down = lambda: True
    effect = disk.Trouble(two, 1).fail()
    assert (effect.effect_ns, effect.why) == (None, "the volume still takes writes")


def test_a_mend_mounts_the_volume_of_the_directory_and_measures_its_logs(two: Any) -> None:
    trouble = disk.Trouble(two, 1, 2)
    trouble.fail()
    build.write_log(two.folders[1] / "t-1", build.plain_batch(0, b"one"))
    effect, lost = trouble.mend()
    assert effect.effect_ns is not None
    assert [one.done for one in two.volumes] == [[], ["shut down", "unmount", "mount"]]
    assert {name: log.leo_after for name, log in lost.items()} == {"t-1": 1}
    assert not two.running, "it opens the directory only when it starts"


def test_a_broker_whose_full_directory_is_mended_must_start_again(two: Any) -> None:
    trouble = disk.Trouble(two, 1, 2)
    assert trouble.fill().proof["holds"] == ["t-1"]
    trouble.mend()
    assert not two.running


def test_a_volume_that_cannot_be_slowed_down_leaves_no_other_slow(two: Any) -> None:
    ended: list[int] = []

    def slow_down(node_id: int, delay_s: float, period_s: float, directory: int) -> Any:
        if directory == 2:
            raise HarnessError("no process for it")
        return SimpleNamespace(end=lambda: ended.append(directory))

    two.slow_down = slow_down
    trouble = disk.Trouble(two, 1)
    with pytest.raises(HarnessError):
        trouble.slow(0.1, 1.0)
    trouble.mend()
    assert ended == [1]


def test_a_replaced_disk_is_that_of_the_directory(two: Any) -> None:
    two.pid = lambda node_id: None
    effect = disk.wipe_disk(two, 1, 2)
    assert two.replaced == [2]
    assert (effect.proof["directory"], effect.proof["holds"]) == (2, ["t-1"])


def test_a_step_with_a_directory_acts_on_it(two: Any) -> None:
    view = SimpleNamespace(resolve=lambda role: (1,))
    two.nodes = {1: SimpleNamespace(name="broker-1")}
    injector = Injector(two, view, lambda: None)  # type: ignore[arg-type]
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
