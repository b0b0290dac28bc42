"""What a user gets wrong, or a host lacks: one clear message, the right exit code, no traceback, nothing left."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import pytest
from host_state import HostState
from live.commands import EBBTIDE, command, ebbtide, records_in

from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.waiting import wait_until

pytestmark = pytest.mark.live


def complaint(done: subprocess.CompletedProcess[str], exit_code: int) -> str:
    assert done.returncode == exit_code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert done.stderr.count("error: ") == 1, done.stderr
    return done.stderr


@pytest.mark.beside
def test_without_root_it_says_so_and_how_to_go_on(tmp_path: Path) -> None:
    # Another user, with no right but to read what root can read: the checkout may lie in root's home.
    only_reading = [f"--{kind}=-all,+dac_read_search" for kind in ("inh-caps", "ambient-caps", "bounding-set")]
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *only_reading, "--"]
    done = subprocess.run(
        [*user, *EBBTIDE, "run", "healthy", "--kafka", "3.9.1", "--runs", str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        check=False,
    )
    said = complaint(done, 3)
    assert "root" in said
    assert "sudo" in said


@pytest.mark.beside
def test_without_a_jdk_it_names_the_package(tmp_path: Path) -> None:
    done = ebbtide("run", "healthy", "--kafka", "3.9.1", env={"PATH": str(tmp_path), "JAVA_HOME": ""})
    assert "default-jre-headless" in complaint(done, 3)


@pytest.mark.beside
def test_a_jdk_that_is_too_old_is_named_with_its_version(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text(
        '#!/bin/sh\necho \'openjdk version "11.0.2" 2019-01-15\' >&2\necho "    java.version = 11.0.2" >&2\n'
    )
    java.chmod(0o755)
    done = ebbtide("run", "healthy", "--kafka", "3.9.1", env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    said = complaint(done, 3)
    assert "11" in said
    assert "17" in said


def _fill(file: Path) -> None:
    """Take all the room there is, the last page included."""
    with file.open("wb") as filler:
        for size in (64 << 20, 1 << 20, 4 << 10):
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(filler.fileno(), os.fstat(filler.fileno()).st_size, size)


def test_a_disk_that_fills_up_while_recording_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    before = HostState.now()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1100m", "tmpfs", str(small)], check=True)
    try:
        run = subprocess.Popen(
            command("run", "healthy", "--kafka", "3.9.1", "--no-judge", "--runs", small / "runs"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(
            lambda: list(small.glob("runs/*/journal/producer-*.journal")) or run.poll() is not None,
            awaited="the producer's journal",
            timeout_s=60,
        )
        _fill(small / "filler")
        out, errors = run.communicate(timeout=120)
        said = complaint(subprocess.CompletedProcess([], run.returncode, out, errors), 3)
        assert "disk is full" in said
        (record,) = records_in(small / "runs")
        assert read_manifest(RecordFolder(record)).status != "complete"
    finally:
        subprocess.run(["umount", str(small)], check=True)
    assert HostState.now().left_since(before, record.name, str(small)) == []
