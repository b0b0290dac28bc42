"""Locks that are waited for: only this user can hold them, and the wait names the holder and ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.errors import HarnessError
from ebbtide.locks import LockUnavailable, await_lock, hold_lock
from ebbtide.ownership import make_private_folder

HOLDS = """
import fcntl, os, sys
held = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(held, fcntl.LOCK_SH)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def umask() -> Iterator[None]:
    """A umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock `lock`, whose file names another process."""
    (tmp_path / "lock").write_text("1\n")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.communicate()


@pytest.mark.usefixtures("umask")
def test_only_this_user_can_open_a_lock_or_its_folder_whatever_the_umask(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "for it"
    make_private_folder(folder)
    with await_lock(folder / "waited", purpose="a test", timeout_s=5):
        assert (folder / "waited").read_text() == f"{os.getpid()}\n"
    with hold_lock(folder, busy="", unlockable="", next=""):
        pass
    assert [path.stat().st_mode & 0o777 for path in (folder, folder.parent)] == [0o700, 0o700]
    assert [(folder / name).stat().st_mode & 0o777 for name in ("waited", "lock")] == [0o600, 0o600]


def test_a_lock_of_an_earlier_release_that_others_could_open_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "lock").chmod(0o644)
    with await_lock(tmp_path / "lock", purpose="a test", timeout_s=5):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
    (tmp_path / "lock").chmod(0o644)
    with hold_lock(tmp_path, busy="", unlockable="", next=""):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600


def test_a_pipe_is_no_lock(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(HarnessError, match="not a file"), hold_lock(tmp_path, busy="", unlockable="", next=""):
        pass


def test_a_wait_ends_with_an_error_that_names_the_holder_and_what_to_do(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    notes: list[str] = []
    lock = tmp_path / "lock"
    with (
        pytest.raises(HarnessError) as caught,
        await_lock(lock, purpose="another clean", timeout_s=1.2, note=notes.append),
    ):
        pass
    assert notes == [f"waiting for another clean: process {holder.pid} holds {lock}"]
    text = str(caught.value)
    assert "waited 1.2 s for another clean" in text
    assert f"held by process {holder.pid}" in text
    assert "wait until that process has ended" in text


def test_a_lock_that_becomes_free_is_taken(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    def let_go(_text: str) -> None:
        assert holder.stdin is not None
        holder.stdin.close()
        holder.stdin = None

    with await_lock(tmp_path / "lock", purpose="a test", timeout_s=30, note=let_go):
        pass


def test_a_lock_that_is_not_waited_for_names_its_holder(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    with (
        pytest.raises(LockUnavailable, match=f"held by process {holder.pid}"),
        hold_lock(tmp_path, busy="busy", unlockable="", next=""),
    ):
        pass


def test_a_lock_is_no_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "precious").touch(mode=0o644)
    (tmp_path / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(HarnessError, match="cannot lock"), await_lock(tmp_path / "lock", purpose="x", timeout_s=1):
        pass
    with pytest.raises(LockUnavailable), hold_lock(tmp_path, busy="", unlockable="cannot lock", next=""):
        pass
    assert (tmp_path / "precious").read_text() == ""
