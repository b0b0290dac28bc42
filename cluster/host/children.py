"""Starts processes that belong to a run: in a namespace, and in the ledger.

The ledger has a child's pid before the child becomes the program: until then the child waits on a pipe. When the
harness dies first, the pipe closes and the child ends. From then on the kernel kills the child when the harness dies
(PR_SET_PDEATHSIG). A child has a session of its own, so that Ctrl-C reaches only the harness, which then decides.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cluster.host.ledger import Ledger
from cluster.host.processes import KILL_TIMEOUT_S, OwnedProcess, identify, mark_of, state_of
from ebbtide import run_clock
from ebbtide.errors import HarnessError
from ebbtide.memory import how_ended
from ebbtide.namespaces import netns_prefix
from ebbtide.record.files import log_command
from ebbtide.record.node_times import NodeTimes, Span
from ebbtide.waiting import wait_until

LOOK_S = 0.005
"""How often (s) a wait looks whether a process has ended: its end is known as exactly as that."""


class ProcessTimes:
    """The start and the end of one process, which does not begin before `began_ns`.

    Every look at the process narrows the time at which it may have ended.
    """

    def __init__(self, began_ns: int) -> None:
        self._ran_ns = began_ns
        self._started: Span | None = None
        self._ended: Span | None = None
        self._is_killed = False

    def note_start(self) -> None:
        """Note that it was let go just now, after it had waited at its gate."""
        self._started = Span.since(self._ran_ns)

    def look(self, is_running: Callable[[], bool]) -> bool:
        """Return whether the process runs, and note when that was."""
        looked_ns = run_clock.now_ns()
        runs = is_running()
        if not runs and self._ended is None:
            self._ended = Span.since(self._ran_ns)
        # After a SIGKILL the kernel may take a while to end a process which does nothing more.
        elif runs and not self._is_killed:
            self._ran_ns = looked_ns
        return runs

    def note_kill(self) -> None:
        """Note that SIGKILL is about to be sent: from now on the process may have ended."""
        self._is_killed = True

    @property
    def times(self) -> NodeTimes:
        """Return the times as those of the node whose process it is."""
        return NodeTimes(started=self._started, ended=self._ended)


_GATE = 'read -r go && exec "$@" </dev/null'

# The death signal is tied to the thread that forked, not to the process: one thread forks every child and
# lives as long as the interpreter does.
_forker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ebbtide-fork")


class Child:
    """A started process; `pid` is the program's own.

    Every wrapper (`sh`, `nsenter`, `setpriv`) replaces itself by the program.
    """

    def __init__(self, popen: subprocess.Popen[bytes], entry: OwnedProcess, ledger: Ledger, began_ns: int) -> None:
        """Private: use `start_child` once the program was let go."""
        self._popen = popen
        self._times = ProcessTimes(began_ns)
        self._times.note_start()
        self._entry = entry
        self._ledger = ledger
        self.pid = popen.pid
        self.name = entry.name

    def exit_status(self) -> int | None:
        """Return None while the process runs, then its exit code or minus the signal.

        Minus the signal that ended it, as `Popen.returncode` has it.
        """
        if not self._times.look(lambda: self._popen.poll() is None):
            self._ledger.forget(self._entry)
        return self._popen.returncode

    @property
    def times(self) -> NodeTimes:
        """When it started, and when it ended if that was seen."""
        return self._times.times

    def check(self, where: str, output: Path) -> None:
        """Raise `HarnessError` if the process ended; `output` is the log that has its last words."""
        if (status := self.exit_status()) is not None:
            said = log_command(output)
            raise HarnessError(f"{self.name} ended by itself", where=where, got=how_ended(status), next=said)

    def is_running(self) -> bool:
        """Whether the process has not ended yet."""
        return self.exit_status() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal; does nothing when the process has ended."""
        if self.exit_status() is None:
            if number == signal.SIGKILL:
                self._times.note_kill()
            self._popen.send_signal(number)

    def wait(self, timeout_s: float) -> int:
        """Wait until the process has ended and is reaped; returns its exit status.

        Raises `WaitExpired`.
        """
        wait_until(
            lambda: not self.is_running(),
            awaited=f"{self.name} (pid {self.pid}) to end",
            timeout_s=timeout_s,
            last_seen=lambda: f"state {state_of(self.pid)}",
            poll_s=LOOK_S,
        )
        status = self.exit_status()
        assert status is not None
        return status

    def kill(self) -> int:
        """Send SIGKILL, wait until the process is reaped, and return its exit status."""
        self.send(signal.SIGKILL)
        return self.wait(KILL_TIMEOUT_S)


def start_child(
    ledger: Ledger,
    argv: Sequence[str],
    *,
    name: str,
    output: Path,
    namespace: Path | None = None,
    inherited: Sequence[int] = (),
) -> Child:
    """Start `argv` with stdout and stderr appended to `output`, and stdin empty.

    The child has the file descriptors `inherited` under the same numbers. Raises `HarnessError` when a needed host
    command is missing. A program that cannot run shows in its exit status and output.
    """
    for command, package in (("nsenter", "util-linux"), ("setpriv", "util-linux")):
        if shutil.which(command) is None:
            raise HarnessError(f"the command {command} is missing", next=f"apt-get install {package}")
    words = ["setpriv", "--pdeathsig", "KILL", "--", *argv]
    if namespace is not None:
        words = [*netns_prefix(namespace), *words]
    return _forker.submit(_start, ledger, words, name, output, inherited).result()


def _start(
    ledger: Ledger,
    words: list[str],
    name: str,
    output: Path,
    inherited: Sequence[int],
) -> Child:
    output.parent.mkdir(parents=True, exist_ok=True)
    gate_read, gate_write = os.pipe2(os.O_CLOEXEC)
    began_ns = run_clock.now_ns()
    try:
        with output.open("ab") as log:
            popen = subprocess.Popen(
                ["/bin/sh", "-c", _GATE, "ebbtide", *words],
                stdin=gate_read,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **mark_of(ledger.run_id)},
                pass_fds=inherited,
                start_new_session=True,
            )
        try:
            entry = OwnedProcess(name=name, process=identify(popen.pid), run_id=ledger.run_id)
            ledger.record(entry)
        except BaseException:
            popen.kill()
            popen.wait()
            raise
        os.write(gate_write, b"go\n")
    finally:
        os.close(gate_read)
        os.close(gate_write)
    return Child(popen, entry, ledger, began_ns)
