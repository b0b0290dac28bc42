"""Volumes lose power: what was fsynced stays, what was not is gone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cluster.host import volumes
from cluster.host.ledger import Ledger
from cluster.host.volumes import Volume, loop_devices_of
from ebbtide.errors import HarnessError

pytestmark = pytest.mark.root


@pytest.fixture(params=["ext4", "xfs"])
def volume(ledger: Ledger, tmp_path: Path, request: pytest.FixtureRequest) -> Volume:
    made = Volume(image=str(tmp_path / "disk.img"), folder=str(tmp_path / "disk"), file_system=request.param)
    ledger.make(made, lambda: made.create(300 << 20))
    made.mount()
    return made


def _write(path: Path, content: bytes, *, fsync: bool) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        if fsync:
            os.fsync(file.fileno())


def _power_cycle(volume: Volume) -> None:
    assert volume.shut_down()
    volume.unmount()
    volume.mount()


def test_what_was_not_fsynced_is_gone_and_what_was_is_whole(volume: Volume) -> None:
    _write(Path(volume.folder, "kept"), b"k" * 100_000, fsync=True)
    _write(Path(volume.folder, "lost"), b"l" * 100_000, fsync=False)
    _power_cycle(volume)
    assert Path(volume.folder, "kept").read_bytes() == b"k" * 100_000
    lost = Path(volume.folder, "lost")
    assert not lost.exists() or b"l" not in lost.read_bytes()


def test_a_tail_appended_after_an_fsync_is_gone(volume: Volume) -> None:
    path = Path(volume.folder, "log")
    _write(path, b"a" * 5000, fsync=True)
    with path.open("ab") as file:
        file.write(b"b" * 50_000)
    _power_cycle(volume)
    assert path.read_bytes()[:5000] == b"a" * 5000
    assert b"b" not in path.read_bytes()


def test_a_synced_volume_loses_nothing(volume: Volume) -> None:
    _write(Path(volume.folder, "file"), b"x" * 100_000, fsync=False)
    volume.sync()
    _power_cycle(volume)
    assert Path(volume.folder, "file").read_bytes() == b"x" * 100_000


def test_a_volume_without_power_refuses_everything(volume: Volume) -> None:
    volume.shut_down()
    with pytest.raises(OSError, match="Input/output error"):
        _write(Path(volume.folder, "late"), b"x", fsync=True)


def test_a_busy_volume_says_who_uses_it(volume: Volume, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "UNMOUNT_TIMEOUT_S", 0.1)
    with (
        Path(volume.folder, "open").open("wb"),
        pytest.raises(HarnessError, match=rf"{os.getpid()} \("),
    ):
        volume.unmount()


def test_undoing_frees_the_loop_device_also_when_the_image_was_deleted(volume: Volume) -> None:
    Path(volume.image).unlink()
    assert volume.undo()
    assert not volume.undo()
    assert not volume.is_mounted()


def test_undoing_waits_for_the_last_user_of_the_loop_device(volume: Volume) -> None:
    [device] = loop_devices_of(volume.image)
    with Path(device).open("rb") as opened, subprocess.Popen(["sleep", "0.5"], stdin=opened) as user:
        opened.close()
        assert volume.undo()
        assert not loop_devices_of(volume.image)
        assert user.wait(timeout=60) == 0


def test_an_image_that_is_there_already_is_not_overwritten(ledger: Ledger, tmp_path: Path) -> None:
    precious = tmp_path / "precious.img"
    precious.write_bytes(b"precious")
    volume = Volume(image=str(precious), folder=str(tmp_path / "disk"))
    with pytest.raises(HarnessError, match="taken"):
        ledger.make(volume, volume.create)
    assert precious.read_bytes() == b"precious"


def test_a_missing_mkfs_says_what_to_install(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes.shutil, "which", lambda command: None)
    with pytest.raises(HarnessError, match="apt-get install e2fsprogs"):
        Volume(image=str(tmp_path / "x.img"), folder=str(tmp_path / "x")).create()


def test_a_folder_with_a_blank_in_its_name_is_found_mounted(ledger: Ledger, tmp_path: Path) -> None:
    volume = Volume(image=str(tmp_path / "a disk.img"), folder=str(tmp_path / "a disk"))
    ledger.make(volume, lambda: volume.create(64 << 20))
    volume.mount()
    assert volume.is_mounted()
