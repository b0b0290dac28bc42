"""A volume's power is lost although another process holds a copy of its mount."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cluster.host.volumes import Volume
from ebbtide.waiting import wait_until

pytestmark = pytest.mark.root


def test_a_mount_namespace_made_meanwhile_does_not_keep_the_dead_file_system(tmp_path: Path) -> None:
    volume = Volume(image=str(tmp_path / "volume.img"), folder=str(tmp_path / "mounted"))
    volume.create(64 << 20)
    volume.mount()
    # A copy of its own, which does not follow when the original is unmounted.
    keep = f"mount --make-private '{volume.folder}' && echo kept && cat"
    command = ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", keep]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as foreign:
        try:
            assert foreign.stdout is not None
            assert foreign.stdout.readline() == b"kept\n"
            with (Path(volume.folder) / "synced").open("w") as file:
                file.write("kept")
                file.flush()
                os.fsync(file.fileno())
            (Path(volume.folder) / "unsynced").write_text("lost")
            assert volume.shut_down()
            volume.unmount()
            volume.mount()
            assert (Path(volume.folder) / "synced").read_text() == "kept"
            assert not (Path(volume.folder) / "unsynced").exists()
        finally:
            volume.undo()
            assert foreign.stdin is not None
            foreign.stdin.close()
    wait_until(lambda: not volume._loop_devices(), awaited="the loop devices to go", timeout_s=60)
