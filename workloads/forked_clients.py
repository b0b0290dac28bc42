"""Starts the clients of a run by forking them from one process, which has imported their library.

docs/decisions/forked-clients.md says why, and what it saves.
"""

from __future__ import annotations

import array
import contextlib
import itertools
import os
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from cluster.host.processes import KILL_TIMEOUT_S, state_of
from cluster.runtime.base import ClientProcess
from cluster.runtime.jvm import tail_of
from ebbtide.command import module_command, module_of
from ebbtide.errors import HarnessError
from ebbtide.record.files import log_command
from ebbtide.waiting import is_readable, wait_until
from workloads.fork_server import MESSAGE_BYTES, Answer, Started, StartRequest

_START_TIMEOUT_S = 60.0
"""How long a fork may take. The first one waits until the library is imported, 0.3 s on an idle core."""
_POLL_S = 0.2


class StartProcess(Protocol):
    """The type of `Runtime.start_client`."""

    def __call__(self, argv: Sequence[str], *, name: str, output: Path, inherited: Sequence[int] = ()) -> ClientProcess:
        """Start `argv` as the client `name`, stdout and stderr appended to `output`.

        The process has the file descriptors `inherited` under the same numbers.
        """


class ForkedClients:
    """Starts clients as `StartClient` does. One process forks them; `start_process` starts it, and `log` is its log.

    Use one object from one thread.
    """

    def __init__(self, start_process: StartProcess, log: Path) -> None:
        self._start_process = start_process
        self._log = log
        self._server: ClientProcess | None = None
        self._link: socket.socket | None = None
        self._numbers = itertools.count(1)
        self._awaited: StartRequest | None = None
        self._started: _ForkedClient | None = None
        self._running: dict[int, _ForkedClient] = {}

    def begin(self) -> None:
        """Start the process that forks, if there is none, and return at once. Raises `HarnessError`."""
        if self._server is not None:
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.ExitStack() as undo, theirs:
            undo.callback(ours.close)
            # `ps` shows by the log which run the process and its clients belong to.
            argv = [*module_command("workloads.fork_server"), str(theirs.fileno()), str(self._log)]
            self._server = self._start_process(argv, name="clients", output=self._log, inherited=[theirs.fileno()])
            self._link = ours
            undo.pop_all()

    def start(self, argv: Sequence[str], *, name: str, output: Path) -> ClientProcess:
        """Start a `module_command` with its arguments as the client `name`.

        stdout and stderr are appended to `output`. Raises `HarnessError` if the process that forks has ended, and
        `WaitExpired`.
        """
        module, arguments = module_of(argv)
        output.parent.mkdir(parents=True, exist_ok=True)
        self.begin()
        self._started = None
        self._awaited = StartRequest(
            number=next(self._numbers),
            name=name,
            module=module,
            arguments=tuple(arguments),
            output=str(output.absolute()),
        )
        assert self._link is not None
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has ended, as `_has_started` finds
                self._link.send(msgspec.json.encode(self._awaited))
            wait_until(
                self._has_started,
                awaited=f"{name} to start",
                timeout_s=_START_TIMEOUT_S,
                last_seen=lambda: f"the process that forks clients in state {self._server_state()}",
                poll_s=0.0,
            )
        finally:
            self._awaited = None
        assert self._started is not None
        return self._started

    def _has_started(self) -> bool:
        if not self.take_answers(_POLL_S) and self._started is None:
            raise self._end_error()
        return self._started is not None

    def _server_state(self) -> str | None:
        return None if self._server is None else state_of(self._server.pid)

    def _end_error(self) -> HarnessError:
        return HarnessError(
            "the process that clients are forked from has ended",
            where=str(self._log.parent),
            got=tail_of(self._log),
            next=log_command(self._log),
        )

    def check_server(self) -> None:
        """Raise `HarnessError` if the process that forks ended by itself, and not by a signal."""
        if self._server is None:
            return
        pid = self._server.pid
        if _await_status(self._server.exit_status, f"process {pid}", pid) >= 0:
            raise self._end_error()

    def take_answers(self, wait_s: float = 0.0) -> bool:
        """Read what the process that forks has said; waits for the first word. Returns whether it still runs."""
        if self._link is None or self._link.fileno() < 0:
            return False
        while is_readable(self._link, wait_s):
            wait_s = 0.0
            try:
                # `socket.recv_fds` takes no notice of flags.
                message, files, _, _ = self._link.recvmsg(MESSAGE_BYTES, _ONE_FILE, socket.MSG_CMSG_CLOEXEC)
            except ConnectionResetError:
                return False
            if not message:
                return False
            answer = msgspec.json.decode(message, type=Answer)
            if isinstance(answer, Started):
                self._take_started(answer, array.array("i", files[0][2])[0])
            elif answer.number in self._running:
                self._running.pop(answer.number).end(answer.exit_code)
        return True

    def _take_started(self, answer: Started, pidfd: int) -> None:
        awaited = self._awaited
        if awaited is None or awaited.number != answer.number:
            # Its start took too long, and nobody waits for it any more.
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)
            return
        self._started = self._running[answer.number] = _ForkedClient(self, awaited.name, answer.pid, pidfd)

    def close(self) -> None:
        """End the process that forks. The kernel then kills the clients that still run."""
        if self._server is None or self._link is None:
            return
        with contextlib.ExitStack() as last:
            last.callback(self._link.close)
            for client in self._running.values():
                last.callback(client.end, -signal.SIGKILL)
            self._server.kill()
            for client in list(self._running.values()):
                client.kill()


_ONE_FILE = socket.CMSG_LEN(array.array("i").itemsize)


class _ForkedClient:
    """One client, as `ClientProcess` describes it."""

    def __init__(self, clients: ForkedClients, name: str, pid: int, pidfd: int) -> None:
        self._clients = clients
        self._name = name
        self.pid = pid
        self._pidfd = pidfd
        self._status: int | None = None
        self._ended_with_server = False

    def end(self, status: int) -> None:
        """Take the exit status, unless it is known."""
        if self._status is None:
            self._status = status
            os.close(self._pidfd)

    def exit_status(self) -> int | None:
        """Return None while it runs, then its exit code or minus the signal that ended it.

        Raises `HarnessError` if it ended because the process that forked it failed.
        """
        status = self._status_within(0.0)
        if self._ended_with_server:
            self._clients.check_server()
        return status

    def _status_within(self, wait_s: float) -> int | None:
        runs = self._clients.take_answers(wait_s) if self._status is None else True
        if self._status is None and not runs and is_readable(self._pidfd):
            self._ended_with_server = True
            self.end(-signal.SIGKILL)
        return self._status

    def kill(self) -> int:
        """Send SIGKILL, wait until the process is reaped, and return its exit status."""
        if self._status_within(0.0) is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        return _await_status(lambda: self._status_within(_POLL_S), f"{self._name} (pid {self.pid})", self.pid)


def _await_status(status: Callable[[], int | None], who: str, pid: int) -> int:
    """Wait until a process that is about to end has an exit status, and return it. Raises `WaitExpired`."""

    def ended() -> tuple[int] | None:
        found = status()
        return None if found is None else (found,)

    (found,) = wait_until(
        ended,
        awaited=f"{who} to end",
        timeout_s=KILL_TIMEOUT_S,
        last_seen=lambda: f"state {state_of(pid)}",
    )
    return found
