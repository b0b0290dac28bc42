"""Disk faults on a stand-in for a volume that may lie: proven by what the volume does, not by what was asked."""

from __future__ import annotations

import errno
from pathlib import Path

import evidence_builders as build
import pytest

from cluster.runtime.base import DiskReplacement, LogLoss
from ebbtide import run_clock
from faults import disk
from faults.base import Effect

LOG = LogLoss(bytes_before=9, bytes_after=0, lost_bytes=9, leo_before=2, leo_after=0)


class FakeVolume:
    """Refuses writes with `error` once something was done to it, or takes them (None)."""

    def __init__(self, folder: Path) -> None:
        self.image = str(folder / "broker-1.img")
        self.folder = str(folder)
        self.error: int | None = None
        self.heals = True
        self.done: list[str] = []

    def write_error(self) -> int | None:
        return self.error

    def fill(self) -> int:
        self.done.append("fill")
        return 4096

    def free(self) -> None:
        self._heal("free")

    def set_read_only(self) -> None:
        self.done.append("read-only")

    def shut_down(self) -> bool:
        self.done.append("shut down")
        return True

    def unmount(self) -> None:
        self.done.append("unmount")

    def mount(self) -> None:
        self._heal("mount")

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
    """A node that runs, with one log."""

    def __init__(self, folder: Path) -> None:
        self.volume_ = FakeVolume(folder)
        self.pulses = FakePulses(freezes=True)
        self.folder = folder / "data"
        build.write_log(self.folder / "t-0", build.plain_batch(0, b"one", b"two"))
        self.running = True
        self.signals: list[str] = []
        self.new = DiskReplacement(lost_bytes=9, logs={"t-0": LOG}, left=(), cluster_id_before="C", cluster_id="C")

    def volume(self, node_id: int, directory: int) -> FakeVolume:
        return self.volume_

    def slow_down(self, node_id: int, delay_s: float, period_s: float, directory: int) -> FakePulses:
        return self.pulses

    def data_dirs(self, node_id: int) -> tuple[Path, ...]:
        return (self.folder,)

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
        return self.new


@pytest.fixture
def runtime(tmp_path: Path) -> FakeRuntime:
    return FakeRuntime(tmp_path)


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
    runtime.volume_.error = error
    reason = reason_of(act(trouble))
    if error is None:
        assert "still takes writes" in reason
    else:
        assert reason == ("" if error == expected else f"the volume refuses writes with {errno.errorcode[error]}")


def test_a_full_volume_is_freed_and_nothing_is_lost_or_killed(runtime: FakeRuntime, trouble: disk.Trouble) -> None:
    trouble.fill()
    runtime.volume_.error = errno.ENOSPC
    effect, lost = trouble.mend()
    assert (reason_of(effect), lost, runtime.signals) == ("", {}, [])
    assert runtime.volume_.done == ["fill", "free"]


def test_a_dead_volume_is_mounted_anew_once_nobody_runs_on_it_and_its_losses_are_measured(
    runtime: FakeRuntime, trouble: disk.Trouble
) -> None:
    began_ns = run_clock.now_ns()
    gone = trouble.fail().of_node[1].log_gone
    assert gone is not None
    assert began_ns <= gone.first_ns <= gone.last_ns <= run_clock.now_ns()
    assert runtime.signals == ["pause", "resume"]
    (runtime.folder / "t-0" / build.segment_name(0)).write_bytes(b"")
    runtime.volume_.error = errno.EIO
    effect, lost = trouble.mend()
    assert not reason_of(effect)
    assert (lost["t-0"].leo_before, lost["t-0"].leo_after) == (2, 0)
    assert runtime.signals[-1] == "kill"
    assert runtime.volume_.done == ["shut down", "unmount", "mount"]


def test_a_volume_that_still_refuses_writes_was_not_mended(runtime: FakeRuntime, trouble: disk.Trouble) -> None:
    trouble.fill()
    runtime.volume_.error, runtime.volume_.heals = errno.ENOSPC, False
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
