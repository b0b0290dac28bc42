"""SIGINT, SIGTERM and SIGHUP end every verb in one way: everything is undone, and the exit code is 3."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from live.commands import EBBTIDE

from ebbtide.errors import ExitCode
from ebbtide.signals import ENDING, exit_code_of, is_interrupt
from ebbtide.waiting import wait_until

WORKING = """
import os, signal, sys, types
from ebbtide.command import main
from harness.cli import main as frame
from harness.cli.command import Command

def run(args):
    try:
        os.write(1, b"working\\n")  # a signal in the middle of a print would make it print twice
        while True:
            signal.pause()
    finally:
        print("cleaning", flush=True)
        if sys.argv[2:]:
            sys.stdin.readline()
        open(sys.argv[1], "w").close()

module = types.ModuleType("harness.cli.clean")
module.command, module.run = Command, run
sys.modules["harness.cli.clean"] = module
frame_main = frame.main
frame.main = lambda: frame_main(["clean"])
sys.exit(main())
"""
"""A verb that works until a signal comes, and then makes the file of its first argument.

With a second argument it first waits for a line on stdin.
"""

AT_ITS_FIRST_STEP = """
import signal, sys
from ebbtide import command

set_handlers = command.interrupt_on_signals

def set_handlers_and_get_a_signal(exit_code):
    set_handlers(exit_code)
    signal.raise_signal(int(sys.argv[1]))

command.interrupt_on_signals = set_handlers_and_get_a_signal
sys.exit(command.main())
"""
"""The command, which gets the signal of its first argument as soon as it has its handlers."""

UNDER_NOHUP = """
import os, sys
from ebbtide.signals import interrupt_on_signals
from ebbtide.streams import ignore_closed_pipes

ignore_closed_pipes()
interrupt_on_signals(3)
print("ready", flush=True)
try:
    os.read(0, 1)
except OSError:
    pass
print("to nobody", flush=True)
sys.exit(7)
"""
"""It prints to a terminal that is closed meanwhile."""


def read_until(terminal: int, text: bytes) -> None:
    """Read from a terminal until it has shown `text`."""
    said = b""
    while text not in said:
        said += os.read(terminal, 1024)


@contextlib.contextmanager
def start(arguments: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Start a command, which is killed if the test fails."""
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def start_work(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Start the verb, and wait until it works."""
    with start([sys.executable, "-c", WORKING, *map(str, arguments)]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        yield process


def has_handler(pid: int, number: int) -> bool:
    """Whether a process has a handler of its own for a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (number - 1) & 1)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_ends_a_verb_with_exit_code_3_after_its_clean_up(number: signal.Signals, tmp_path: Path) -> None:
    with start_work(tmp_path / "cleaned") as process:
        process.send_signal(number)
        said, errors = process.communicate(timeout=30)
    assert (process.returncode, said, errors) == (3, "cleaning\n", "interrupted\n")
    assert (tmp_path / "cleaned").exists()


def is_asleep(pid: int) -> bool:
    """Whether a process waits for something."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_a_second_signal_cuts_no_clean_up_short(tmp_path: Path) -> None:
    with start_work(tmp_path / "cleaned", "on a line") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "cleaning\n"
        # Python answers a signal that comes right before a read only once that read has ended.
        wait_until(lambda: is_asleep(process.pid), awaited="the read of the line", timeout_s=30, poll_s=0.002)
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline().startswith("still cleaning up")
        _, errors = process.communicate("\n", timeout=30)
    assert (process.returncode, errors) == (3, "interrupted\n")
    assert (tmp_path / "cleaned").exists()


def test_a_signal_while_the_command_still_loads_ends_it_in_the_same_way() -> None:
    with start([*EBBTIDE, "scenarios", "check", "/dev/stdin"]) as process:
        wait_until(lambda: has_handler(process.pid, signal.SIGHUP), awaited="the handlers", timeout_s=30, poll_s=0.002)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(30)) == ("interrupted\n", 3)


def test_a_signal_right_after_the_handlers_are_set_ends_the_command_in_the_same_way() -> None:
    with start([sys.executable, "-c", AT_ITS_FIRST_STEP, str(signal.SIGTERM.value)]) as process:
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (3, "interrupted\n")


def test_a_closed_terminal_ends_a_verb_in_the_same_way(tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", WORKING, str(tmp_path / "cleaned")])
    read_until(terminal, b"working")
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == ExitCode.HARNESS_FAILED
    assert (tmp_path / "cleaned").exists()


def test_what_runs_under_nohup_outlives_its_terminal() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.execv(sys.executable, [sys.executable, "-c", UNDER_NOHUP])
    read_until(terminal, b"ready")
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_an_interrupt_that_was_handled_is_over() -> None:
    """A cluster by hand ends its serving on Ctrl-C, and goes on: another Ctrl-C must reach it."""
    script = (
        "import os, signal\nfrom ebbtide.signals import interrupt_on_signals\ninterrupt_on_signals(3)\n"
        "for _ in range(2):\n    try:\n        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    except SystemExit:\n        print('heard')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "heard\nheard\n"


def test_an_error_that_an_interrupt_caused_is_an_interrupt() -> None:
    caught: BaseException | None = None
    with contextlib.suppress(SystemExit):
        try:
            try:
                raise SystemExit(3)
            finally:
                raise ValueError("cut short")
        except ValueError as error:
            caught = error
    assert is_interrupt(caught)
    assert not is_interrupt(ValueError("of its own"))


@pytest.mark.parametrize(
    ("status", "code"), [(0, 0), (2, 2), (-signal.SIGTERM, 3), (-signal.SIGHUP, 3), (-signal.SIGKILL, 137)]
)
def test_a_command_that_died_of_an_ending_signal_at_its_start_was_interrupted(status: int, code: int) -> None:
    assert exit_code_of(status, ExitCode.HARNESS_FAILED) == code


IMPORTING = """
import signal
from ebbtide.signals import interrupt_on_signals

interrupt_on_signals(3)
import drops_interrupts
signal.sigtimedwait([], 30)
print("goes on", flush=True)
"""
"""Its import drops an interrupt, as that of compiled code may."""


def test_an_interrupt_that_an_import_would_drop_comes_after_it(tmp_path: Path) -> None:
    raises = "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGTERM)\nexcept BaseException:\n    pass\n"
    (tmp_path / "drops_interrupts.py").write_text(raises)
    words = [sys.executable, "-c", IMPORTING]
    done = subprocess.run(
        words, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(tmp_path)}, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


HANGING = """
from ebbtide import signals

signals._IMPORT_MAX_S = 0.05
signals.interrupt_on_signals(3)
import hangs
"""


def test_an_interrupt_cuts_an_import_short_that_hangs(tmp_path: Path) -> None:
    hangs = "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nsignal.sigtimedwait([], 60)\n"
    (tmp_path / "hangs.py").write_text(hangs)
    words = [sys.executable, "-c", HANGING]
    done = subprocess.run(words, env=os.environ | {"PYTHONPATH": str(tmp_path)}, timeout=50, check=False)
    assert done.returncode == 3


BECOMING = """
import os
from ebbtide import signals

signals._AGAIN_S = 0.3
signals.interrupt_on_signals(3)
import drops_interrupts
{before}
os.execvp("sleep", ["sleep", "1"])
"""


@pytest.mark.parametrize(("before", "code"), [("", -signal.SIGALRM), ("signals.deliver_awaited()", 3)])
def test_an_interrupt_that_waits_for_an_import_comes_before_the_process_becomes_another_program(
    tmp_path: Path, before: str, code: int
) -> None:
    raises = "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGTERM)\nexcept BaseException:\n    pass\n"
    (tmp_path / "drops_interrupts.py").write_text(raises)
    words = [sys.executable, "-c", BECOMING.format(before=before)]
    done = subprocess.run(words, env=os.environ | {"PYTHONPATH": str(tmp_path)}, timeout=50, check=False)
    assert done.returncode == code
