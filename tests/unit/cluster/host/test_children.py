"""Children: in the ledger before they exist, dead with the harness, out of Ctrl-C's reach."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cluster.host import children
from cluster.host.children import start_child
from cluster.host.ledger import Ledger, read_ledger
from cluster.host.processes import OwnedProcess, cpu_ns_since, identify, is_alive, state_of, thread_cpu_ns
from ebbtide.waiting import WaitExpired, pause, wait_until


def _runs(pid: int, program: bytes) -> bool:
    return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(program)


def test_a_child_stands_in_the_ledger_before_its_program_runs(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    had_run = []
    record = ledger.record

    def spy(entry: OwnedProcess) -> None:
        pause(0.05)
        had_run.append(ran.exists())
        record(entry)

    monkeypatch.setattr(ledger, "record", spy)
    child = start_child(ledger, ["touch", str(ran)], name="t", output=tmp_path / "log")
    assert [entry.describe() for entry in read_ledger(ledger.path).entries] == [f"process {child.pid} (t)"]
    child.wait(60)
    assert (had_run, ran.exists()) == ([False], True)


def test_a_child_never_runs_when_the_ledger_cannot_be_written(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def refuse(entry: OwnedProcess) -> None:
        started.append(entry.process)
        raise OSError("disk full")

    monkeypatch.setattr(ledger, "record", refuse)
    with pytest.raises(OSError, match="disk full"):
        start_child(ledger, ["touch", str(tmp_path / "ran")], name="t", output=tmp_path / "log")
    assert not is_alive(started[0])
    assert not (tmp_path / "ran").exists()


def test_output_is_appended_and_the_exit_status_is_the_programs(ledger: Ledger, tmp_path: Path) -> None:
    for number in (3, 4):
        child = start_child(
            ledger, ["sh", "-c", f"echo out; echo err >&2; exit {number}"], name="s", output=tmp_path / "log"
        )
        assert child.wait(60) == number
    assert (tmp_path / "log").read_text() == "out\nerr\n" * 2


def test_a_killed_child_says_which_signal_and_leaves_the_ledger(ledger: Ledger, tmp_path: Path) -> None:
    child = start_child(ledger, ["sleep", "300"], name="s", output=tmp_path / "log")
    assert child.exit_status() is None
    assert child.kill() == -signal.SIGKILL
    assert ledger.entries() == []
    assert child.kill() == -signal.SIGKILL


def test_waiting_for_a_child_that_stays_says_so(ledger: Ledger, tmp_path: Path) -> None:
    child = start_child(ledger, ["sleep", "300"], name="stays", output=tmp_path / "log")
    with pytest.raises(WaitExpired, match="stays"):
        child.wait(0.05)
    child.kill()


def test_a_child_outlives_the_thread_that_asked_for_it(ledger: Ledger, tmp_path: Path) -> None:
    started = []

    def start_and_end() -> None:
        child = start_child(ledger, ["sleep", "300"], name="s", output=tmp_path / "log")
        # Only by then has the kernel been told when to kill it.
        wait_until(lambda: _runs(child.pid, b"sleep"), awaited="the program", timeout_s=60)
        started.append(child)

    thread = threading.Thread(target=start_and_end)
    thread.start()
    thread.join()
    pause(0.1)
    assert started[0].exit_status() is None
    started[0].kill()


def test_a_child_has_a_session_of_its_own(ledger: Ledger, tmp_path: Path) -> None:
    child = start_child(ledger, ["sleep", "300"], name="s", output=tmp_path / "log")
    assert os.getsid(child.pid) == child.pid != os.getsid(0)
    child.kill()


def test_a_child_dies_with_a_killed_harness(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from cluster.host.children import start_child; from cluster.host.ledger import Ledger\n"
        "from ebbtide.waiting import pause\n"
        "folder = Path(sys.argv[1])\n"
        "with Ledger.open('r', folder, ledgers=folder / 'ledger') as ledger:\n"
        "    print(start_child(ledger, ['sleep', '300'], name='s', output=folder / 'log').pid, flush=True)\n"
        "    pause(300)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        child = identify(int(harness.stdout.readline()))
        wait_until(lambda: _runs(child.pid, b"sleep"), awaited="the program", timeout_s=60)
        harness.kill()
    wait_until(lambda: not is_alive(child), awaited="the child to die with its harness", timeout_s=60)


def test_a_paused_process_gets_no_time_and_a_resumed_one_does(ledger: Ledger, tmp_path: Path) -> None:
    child = start_child(ledger, ["sh", "-c", "while :; do :; done"], name="s", output=tmp_path / "log")
    child.send(signal.SIGSTOP)
    wait_until(lambda: state_of(child.pid) == "T", awaited="the stop", timeout_s=60)
    had = thread_cpu_ns(child.pid)
    child.send(signal.SIGCONT)
    wait_until(lambda: cpu_ns_since(child.pid, had) > 0, awaited="it to run", timeout_s=60)
    child.kill()


def test_a_missing_host_command_says_what_to_install(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children.shutil, "which", lambda command: None)
    with pytest.raises(Exception, match="apt-get install util-linux"):
        start_child(ledger, ["true"], name="t", output=tmp_path / "log")


def test_a_thread_that_ended_hides_nothing_of_what_the_others_ran() -> None:
    had = {**thread_cpu_ns(os.getpid()), "ended": 10**15}
    wait_until(lambda: cpu_ns_since(os.getpid(), had) > 0, awaited="this process to run", timeout_s=60)
