"""The ledger: written before, undone after, whatever happens in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.clean import clean
from cluster.host import processes
from cluster.host.ledger import Ledger, read_ledger
from cluster.host.processes import OwnedProcess, ProcessId, identify, is_alive, mark_of
from ebbtide.errors import HarnessError, UsageError


@pytest.fixture
def ledgers(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that a run may own."""
    with subprocess.Popen(["sleep", "300"], env={**os.environ, **mark_of("r")}) as process:
        yield process
        process.kill()


def _entry(pid: int, name: str = "sleeper") -> OwnedProcess:
    return OwnedProcess(name=name, process=identify(pid), run_id="r")


def _nobody(name: str) -> OwnedProcess:
    return OwnedProcess(name=name, process=ProcessId(pid=1 << 22, start_ticks=0, boot_id="none"), run_id="r")


def test_an_entry_is_on_disk_before_the_thing_is_made(ledgers: Path, tmp_path: Path) -> None:
    seen = []
    with Ledger.open("r", tmp_path, ledgers=ledgers) as ledger:
        ledger.make(_nobody("a"), lambda: seen.extend(read_ledger(ledger.path).entries))
    assert seen == [_nobody("a")]


def test_the_last_made_is_undone_first(ledgers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undone: list[str] = []
    monkeypatch.setattr(OwnedProcess, "undo", lambda self: undone.append(self.name))
    with Ledger.open("r", tmp_path, ledgers=ledgers) as ledger:
        for name in ("first", "second", "third"):
            ledger.record(_nobody(name))
    assert undone == ["third", "second", "first"]


def test_a_process_that_has_no_environment_yet_is_not_taken_for_a_foreign_one(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, looks = processes._words_of, []

    def words_of(pid: int, file: str) -> list[bytes]:
        looks.append(file)
        return [b""] if len(looks) < 3 else read(pid, file)

    monkeypatch.setattr(processes, "_words_of", words_of)
    assert _entry(sleeper.pid).undo()


def test_leaving_kills_what_the_run_owns_and_removes_the_ledger(
    ledgers: Path, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    with Ledger.open("r", tmp_path, ledgers=ledgers) as ledger:
        ledger.record(_entry(sleeper.pid))
    assert sleeper.wait(60) == -signal.SIGKILL
    assert list(ledgers.glob("*.jsonl")) == []


@pytest.mark.parametrize("error", [OSError("it is stuck"), IndexError("it is stuck")])
def test_one_failing_undo_does_not_stop_the_others_and_stays_for_clean(
    ledgers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    undone: list[str] = []

    def undo(self: OwnedProcess) -> bool:
        if self.name == "stuck":
            raise error
        undone.append(self.name)
        return True

    monkeypatch.setattr(OwnedProcess, "undo", undo)
    ledger = Ledger.open("r", tmp_path, ledgers=ledgers)
    for name in ("first", "stuck", "last"):
        ledger.record(_nobody(name))
    with pytest.raises(HarnessError, match="stuck"):
        ledger.close()
    assert undone == ["last", "first"]
    assert [entry.name for entry in read_ledger(ledger.path).entries if isinstance(entry, OwnedProcess)] == ["stuck"]


def test_a_taken_name_is_struck_out_so_that_nothing_foreign_is_undone(
    ledgers: Path, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    def refuse_taken_path() -> None:
        raise FileExistsError(17, "File exists", "/somewhere/taken")

    with Ledger.open("r", tmp_path, ledgers=ledgers) as ledger:
        with pytest.raises(HarnessError, match="/somewhere/taken"):
            ledger.make(_entry(sleeper.pid), refuse_taken_path)
        assert read_ledger(ledger.path).entries == ()
    assert sleeper.poll() is None


def test_a_run_id_that_is_in_use_is_refused_with_the_next_command(ledgers: Path, tmp_path: Path) -> None:
    with (
        Ledger.open("r", tmp_path, ledgers=ledgers),
        pytest.raises(HarnessError, match="ebbtide clean"),
    ):
        Ledger.open("r", tmp_path, ledgers=ledgers)


def test_a_part_that_a_killed_process_of_the_same_pid_left_is_one_clear_error(ledgers: Path, tmp_path: Path) -> None:
    ledgers.mkdir(mode=0o700, exist_ok=True)
    (ledgers / f".r.{os.getpid()}.part").touch()
    with pytest.raises(HarnessError, match="ebbtide clean"):
        Ledger.open("r", tmp_path, ledgers=ledgers)


@pytest.mark.parametrize("run_id", ["", "../x", "a/b", "-x", "a b", "x" * 200])
def test_a_run_id_that_cannot_name_things_is_a_usage_error(run_id: str, ledgers: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        Ledger.open(run_id, tmp_path, ledgers=ledgers)


def test_a_closed_ledger_takes_nothing_more(ledgers: Path, tmp_path: Path) -> None:
    ledger = Ledger.open("r", tmp_path, ledgers=ledgers)
    ledger.close()
    ledger.close()
    with pytest.raises(HarnessError, match="closed"):
        ledger.record(_nobody("late"))


_HOLDER = """
import os, subprocess, sys
from pathlib import Path
from cluster.host.processes import OwnedProcess, identify, mark_of
from cluster.host.ledger import Ledger
from ebbtide.waiting import pause
owned = subprocess.Popen(["sleep", "300"], start_new_session=True, env={**os.environ, **mark_of("held")})
with Ledger.open("held", Path(sys.argv[1]), ledgers=Path(sys.argv[2])) as ledger:
    ledger.record(OwnedProcess(name="sleeper", process=identify(owned.pid), run_id="held"))
    print(owned.pid, flush=True)
    pause(300)
"""


def _hold(tmp_path: Path, ledgers: Path, program: str = _HOLDER) -> tuple[subprocess.Popen[str], ProcessId]:
    """A harness in a process of its own, and the process it owns."""
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path), str(ledgers)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    return holder, identify(int(holder.stdout.readline()))


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, -2)])
def test_a_signal_that_ends_the_harness_undoes_everything_first(
    number: signal.Signals, status: int, tmp_path: Path, ledgers: Path
) -> None:
    holder, owned = _hold(tmp_path, ledgers)
    with holder:
        holder.send_signal(number)
        assert holder.wait(60) == status
    assert not is_alive(owned)
    assert list(ledgers.glob("*.jsonl")) == []


def test_clean_undoes_what_a_killed_harness_left_and_nothing_else(
    tmp_path: Path, ledgers: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    holder, owned = _hold(tmp_path, ledgers)
    with holder:
        holder.kill()
    assert is_alive(owned)
    [outcome] = clean(ledgers)
    assert outcome.undone == (f"process {owned.pid} (sleeper)",)
    assert not is_alive(owned)
    assert sleeper.poll() is None
    assert clean(ledgers) == []


def test_clean_leaves_a_live_run_alone_and_says_so(tmp_path: Path, ledgers: Path) -> None:
    holder, owned = _hold(tmp_path, ledgers)
    with holder:
        [outcome] = clean(ledgers)
        assert outcome.live
        assert is_alive(owned)
        holder.terminate()


def test_a_run_whose_process_looks_dead_from_here_is_live_by_its_lock(
    tmp_path: Path, ledgers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, owned = _hold(tmp_path, ledgers)
    with holder:
        with monkeypatch.context() as patch:
            patch.setattr("cluster.clean.is_alive", lambda _: False)  # as in another namespace of processes
            [outcome] = clean(ledgers)
        assert outcome.live
        assert is_alive(owned)
        holder.terminate()


def test_clean_keeps_what_it_could_not_undo(tmp_path: Path, ledgers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holder, owned = _hold(tmp_path, ledgers)
    with holder:
        holder.kill()

    def refuse(self: OwnedProcess) -> bool:
        raise OSError("no")

    with monkeypatch.context() as patch:
        patch.setattr(OwnedProcess, "undo", refuse)
        [outcome] = clean(ledgers)
        assert outcome.failed == (f"process {owned.pid} (sleeper): no",)
    [outcome] = clean(ledgers)
    assert outcome.undone


def test_a_reused_pid_is_not_killed(sleeper: subprocess.Popen[bytes]) -> None:
    right = identify(sleeper.pid)
    reused = ProcessId(pid=right.pid, start_ticks=right.start_ticks - 1, boot_id=right.boot_id)
    assert not OwnedProcess(name="other", process=reused, run_id="r").undo()
    assert sleeper.poll() is None


def test_a_pid_of_an_earlier_boot_is_not_killed(sleeper: subprocess.Popen[bytes]) -> None:
    right = identify(sleeper.pid)
    earlier = ProcessId(pid=right.pid, start_ticks=right.start_ticks, boot_id="an earlier boot")
    assert not OwnedProcess(name="other", process=earlier, run_id="r").undo()
    assert sleeper.poll() is None


def test_a_line_that_a_kill_tore_is_no_entry(tmp_path: Path, ledgers: Path) -> None:
    ledger = Ledger.open("r", tmp_path, ledgers=ledgers)
    ledger.record(_nobody("whole"))
    with ledger.path.open("ab") as file:
        file.write(b'{"line":"made","number":1,"entry":{"kind":"proc')
    assert read_ledger(ledger.path).entries == (_nobody("whole"),)
    ledger.close()


def test_a_second_ctrl_c_does_not_interrupt_the_undoing(
    ledgers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undone: list[str] = []

    def undo(self: OwnedProcess) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        undone.append(self.name)
        return True

    monkeypatch.setattr(OwnedProcess, "undo", undo)
    ledger = Ledger.open("r", tmp_path, ledgers=ledgers)
    ledger.record(_nobody("a"))
    ledger.record(_nobody("b"))
    with pytest.raises(KeyboardInterrupt):
        ledger.close()
    assert undone == ["b", "a"]
    assert list(ledgers.glob("*.jsonl")) == []
