"""Starts the clients of a run by forking them from one process, which has imported their library.

docs/decisions/forked-clients.md says why, and what it saves.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from cluster.host.processes import KILL_TIMEOUT_S, state_of
from cluster.runtime.base import ClientProcess
from cluster.runtime.jvm import tail_of
from ebbtide.command import module_command, module_of
from ebbtide.errors import HarnessError
from ebbtide.record.files import log_command
from ebbtide.waiting import wait_until
from workloads.fork_server import MESSAGE_BYTES, Answer, Started, StartRequest

_START_TIMEOUT_S = 60.0
"""How long a fork may take. The first one waits until the library is imported, 0.3 s on an idle core."""


class StartProcess(Protocol):
    """The type of `Runtime.start_client`: `keeps` are descriptors that the process has under the same numbers."""

    def __call__(self, argv: Sequence[str], *, name: str, output: Path, keeps: Sequence[int] = ()) -> ClientProcess:
        """Start `argv` as the client `name`, stdout and stderr appended to `output`."""


class ForkedClients:
    """Starts clients as `StartClient` does. One process forks them; `start_process` starts it, and `log` is its log."""

    def __init__(self, start_process: StartProcess, log: Path) -> None:
        self._start_process = start_process
        self._log = log
        self._server: ClientProcess | None = None
        self._link: socket.socket | None = None
        self._started: int | None = None
        self._pidfds: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._lock = threading.RLock()

    def begin(self) -> None:
        """Start the process that forks, if there is none, and return at once. Raises `HarnessError`."""
        if self._server is not None:
            return
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # `recv_fds` takes no notice of MSG_DONTWAIT.
        self._link.setblocking(False)
        with theirs:
            # Who looks at the processes of a host sees by the log which run they belong to.
            argv = [*module_command("workloads.fork_server"), str(theirs.fileno()), str(self._log)]
            self._server = self._start_process(argv, name="clients", output=self._log, keeps=[theirs.fileno()])

    def start(self, argv: Sequence[str], *, name: str, output: Path) -> ClientProcess:
        """Start a `module_command` with its arguments as the client `name`.

        stdout and stderr are appended to `output`. Raises `HarnessError` if the process that forks has ended, and
        `WaitExpired`.
        """
        module, arguments = module_of(argv)
        output.parent.mkdir(parents=True, exist_ok=True)
        request = StartRequest(name=name, module=module, arguments=tuple(arguments), output=str(output.absolute()))
        with self._lock:
            self.begin()
            self._started = None
            assert self._link is not None
            with contextlib.suppress(OSError):  # the process has ended, as the next lines find
                self._link.send(msgspec.json.encode(request))
            wait_until(self._has_started, awaited=f"{name} to start", timeout_s=_START_TIMEOUT_S, poll_s=0.002)
            assert self._started is not None
            return _ForkedClient(self, self._started, name)

    def _has_started(self) -> bool:
        if not self._take_answers():
            raise HarnessError(
                "the process that clients are forked from has ended",
                where=str(self._log.parent),
                got=tail_of(self._log),
                next=log_command(self._log),
            )
        return self._started is not None

    def exit_status(self, pid: int) -> int | None:
        """Return None while a client runs, then its exit code or minus the signal that ended it."""
        with self._lock:
            if not self._take_answers() and pid not in self._ends and self._has_ended(pid):
                # The kernel killed it when its parent ended.
                self._ends[pid] = -signal.SIGKILL
            return self._ends.get(pid)

    def kill(self, pid: int) -> None:
        """Send a client SIGKILL if it runs."""
        with self._lock, contextlib.suppress(ProcessLookupError):
            if self.exit_status(pid) is None:
                signal.pidfd_send_signal(self._pidfds[pid], signal.SIGKILL)

    def await_end(self, pid: int, name: str) -> int:
        """Wait until a client that was killed has ended; returns its exit status. Raises `WaitExpired`."""

        def status() -> tuple[int] | None:
            code = self.exit_status(pid)
            return None if code is None else (code,)

        awaited, last_seen = f"{name} (pid {pid}) to end", lambda: f"state {state_of(pid)}"
        return wait_until(status, awaited=awaited, timeout_s=KILL_TIMEOUT_S, last_seen=last_seen)[0]

    def close(self) -> None:
        """End the process that forks. The kernel then kills the clients that still run."""
        if self._server is None or self._link is None:
            return
        try:
            self._server.kill()
            for pid in list(self._pidfds):
                self.await_end(pid, "a client")
        finally:
            for pidfd in self._pidfds.values():
                os.close(pidfd)
            self._pidfds.clear()
            self._link.close()

    def _has_ended(self, pid: int) -> bool:
        ready = select.poll()
        ready.register(self._pidfds[pid], select.POLLIN)
        return bool(ready.poll(0))

    def _take_answers(self) -> bool:
        """Read what the process that forks has said; returns whether it still runs."""
        while self._link is not None:
            try:
                message, files, _, _ = socket.recv_fds(self._link, MESSAGE_BYTES, 1)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not message:
                return False
            answer = msgspec.json.decode(message, type=Answer)
            if isinstance(answer, Started):
                self._started, self._pidfds[answer.pid] = answer.pid, *files
            else:
                self._ends[answer.pid] = answer.exit_code
                os.close(self._pidfds.pop(answer.pid))
        return False


class _ForkedClient:
    """One client, as `ClientProcess` describes it."""

    def __init__(self, clients: ForkedClients, pid: int, name: str) -> None:
        self._clients = clients
        self.pid = pid
        self._name = name

    def exit_status(self) -> int | None:
        """Return None while it runs, then its exit code or minus the signal that ended it."""
        return self._clients.exit_status(self.pid)

    def kill(self) -> int:
        """Send SIGKILL, wait until the process is reaped, and return its exit status."""
        self._clients.kill(self.pid)
        return self._clients.await_end(self.pid, self._name)
