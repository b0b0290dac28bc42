"""Temporary folders: gone with their process, and after a killed one with the next clean-up."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from deep_folders import nest

from ebbtide.errors import ExitCode
from ebbtide.scratch import (
    IMAGE,
    JUDGING,
    MAVEN,
    PYTEST,
    SPARK,
    ScratchFolder,
    java_scratch_flag,
    remove_abandoned,
    scratch_folder,
)
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
    assert remove_abandoned() == {}
    assert scratch.path.is_dir()
    scratch.remove()
    scratch.remove()
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_process_that_lives_stays_and_that_of_a_killed_one_goes(
    owner: tuple[subprocess.Popen[str], Path],
) -> None:
    process, folder = owner
    (folder / "stderr.log").touch()
    assert remove_abandoned() == {}
    assert folder.is_dir()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert remove_abandoned() == {folder: ()}
    assert not folder.exists()


IN_A_FOLDER = "import sys, time; print(flush=True); time.sleep(600)"


def test_a_java_process_of_an_abandoned_folder_ends_with_it_and_no_other_does(
    owner: tuple[subprocess.Popen[str], Path], tmp_path: Path
) -> None:
    process, folder = owner
    words = [sys.executable, "-c", IN_A_FOLDER]
    with (
        subprocess.Popen([*words, java_scratch_flag(folder)], stdout=subprocess.PIPE) as in_it,
        subprocess.Popen([*words, java_scratch_flag(Path(f"{folder}2")), str(folder)], stdout=subprocess.PIPE) as other,
    ):
        for one in (in_it, other):
            assert one.stdout is not None
            one.stdout.readline()
        assert remove_abandoned() == {}
        assert in_it.poll() is None
        process.kill()
        process.wait()
        assert remove_abandoned() == {folder: (in_it.pid,)}
        assert in_it.wait(60) == -signal.SIGKILL
        assert other.poll() is None
        other.kill()


def test_clean_kills_and_names_a_judging_process_that_outlived_its_caller(
    owner: tuple[subprocess.Popen[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    process, folder = owner
    words = [sys.executable, "-c", IN_A_FOLDER]
    log = (folder / "judging.log").open("wb")
    with log, subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log) as judging:
        assert judging.stdout is not None
        judging.stdout.readline()
        assert remove_abandoned() == {}
        process.kill()
        process.wait()
        monkeypatch.setattr("cluster.clean.ledgers_dir", lambda: tmp_path / "ledger")
        monkeypatch.setattr("cluster.clean.abandoned_containers", lambda known: [])
        monkeypatch.setattr("cluster.clean.remove_dead_sockets", list)
        assert main(["clean"]) == ExitCode.AS_PREDICTED
        said = f"scratch: undone: temporary folder {folder}, and in it process {judging.pid}\n"
        assert capsys.readouterr().out == said
        assert judging.wait(60) == -signal.SIGKILL


def test_the_folder_of_a_killed_build_or_fetch_goes_too(tmp_path: Path) -> None:
    for prefix in (IMAGE, MAVEN, PYTEST, JUDGING):
        with scratch_folder(prefix) as folder:
            assert folder.name.startswith(prefix)
        assert not folder.exists()
        dies = f"import os; from ebbtide.scratch import ScratchFolder; ScratchFolder({prefix!r}); os._exit(9)"
        subprocess.run([sys.executable, "-c", dies], check=False)
    assert len(remove_abandoned()) == 4
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_nobody_owns_for_certain_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / f"{SPARK}older").mkdir()
    (tmp_path / f"{SPARK}file").touch()
    assert remove_abandoned() == {}
    assert len(list(tmp_path.iterdir())) == 2


def test_a_planted_folder_of_any_depth_does_not_stop_the_clean_up(tmp_path: Path) -> None:
    planted = nest(tmp_path / f"{SPARK}planted", 1_200)
    (planted / "owner.lock").touch(mode=0o600)
    after = tmp_path / f"{SPARK}ruined"
    after.mkdir()
    (after / "owner.lock").touch(mode=0o600)
    assert list(remove_abandoned()) == [planted, after]
    assert list(tmp_path.iterdir()) == []
