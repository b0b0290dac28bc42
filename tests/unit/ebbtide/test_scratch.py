"""Temporary folders: gone with their process, and after a killed one with the next clean-up."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.host.containers import Container
from ebbtide.errors import ExitCode
from ebbtide.scratch import SPARK, ScratchFolder, remove_abandoned
from ebbtide.waiting import wait_until
from harness.cli.main import main

OWNS = """
import signal
from ebbtide.scratch import ScratchFolder
print(ScratchFolder().path, flush=True)
signal.pause()
"""


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.fixture
def owner() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that has such a folder."""
    with subprocess.Popen([sys.executable, "-c", OWNS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_a_folder_is_its_process_s_until_it_is_removed(tmp_path: Path) -> None:
    scratch = ScratchFolder()
    assert scratch.path.parent == tmp_path
    assert remove_abandoned() == []
    assert scratch.path.is_dir()
    scratch.remove()
    scratch.remove()
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_process_that_lives_stays_and_that_of_a_killed_one_goes(
    owner: tuple[subprocess.Popen[str], Path],
) -> None:
    process, folder = owner
    (folder / "stderr.log").touch()
    assert remove_abandoned() == []
    assert folder.is_dir()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert remove_abandoned() == [folder]
    assert not folder.exists()


def test_a_folder_that_nobody_owns_for_certain_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / f"{SPARK}older").mkdir()
    (tmp_path / f"{SPARK}file").touch()
    assert remove_abandoned() == []
    assert len(list(tmp_path.iterdir())) == 2


def test_clean_removes_what_a_killed_judging_left(
    owner: tuple[subprocess.Popen[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    process, folder = owner
    process.kill()
    wait_until(lambda: process.poll() is not None, awaited="the owner's end", timeout_s=60)
    nothing: list[Container] = []
    monkeypatch.setattr("cluster.clean.ledgers_dir", lambda: tmp_path / "ledger")
    monkeypatch.setattr("cluster.clean.abandoned_containers", lambda known: nothing)
    assert main(["clean"]) == ExitCode.AS_PREDICTED
    assert capsys.readouterr().out == f"judging: undone: temporary folder {folder}\n"
