"""One client process as the harness sees it: started, watched, stopped or killed.

The harness reads its status file, and kills it by pid.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from cluster.kafka_api.admin_requests import AdminAnswer, AdminRequest
from cluster.kafka_api.replica_log import ReplicaAnswers
from cluster.runtime.base import ClientProcess, StartClient
from ebbtide import run_clock
from ebbtide.command import module_command
from ebbtide.errors import Disturbed, HarnessError
from ebbtide.memory import how_ended
from ebbtide.record.files import log_command, write_atomically
from ebbtide.signals import ENDING
from ebbtide.waiting import WaitExpired, wait_until
from workloads.config import Endpoints
from workloads.process import ClientState, StatusFile
from workloads.replica_logs import Sent, ToSend, answer_file, request_file

_TAIL_BYTES = 2_000


class ClientEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How one client ended.

    `exit_code` is negative for a signal (-9: it had to be killed), None while the client runs.
    """

    name: str
    exit_code: int | None
    state: ClientState
    message: str

    @property
    def is_clean(self) -> bool:
        """Whether the client ended by itself, with a complete journal."""
        return self.exit_code == 0 and self.state in (ClientState.DONE, ClientState.STOPPED)


class Client:
    """A process that runs `python -m MODULE CONFIG.json`.

    `folder` holds its configuration, status and stop files, `log` its stdout and stderr.
    """

    def __init__(self, name: str, module: str, folder: Path, log: Path, *, command_config: str | None = None) -> None:
        self.name = name
        self._command_config = command_config
        self._module = module
        self._config = folder / f"{name}.json"
        self._log = log
        self._status_path = folder / f"{name}.status"
        self._stop_path = folder / f"{name}.stop"
        self._status: StatusFile | None = None
        self._process: ClientProcess | None = None
        self._was_killed = False
        self.is_down = False
        """Whether a step ended the process, which then need not run."""

    @property
    def endpoints(self) -> Endpoints:
        """The files through which the process and the harness communicate."""
        return Endpoints(
            status=str(self._status_path),
            stop=str(self._stop_path),
            command_config=self._command_config,
            clock_base_ns=run_clock.base_ns(),
        )

    def start(self, config: msgspec.Struct, start_client: StartClient) -> None:
        """Write the configuration and start the process. Raises `HarnessError`."""
        for path in (self._status_path, self._stop_path):
            path.unlink(missing_ok=True)
        self._config.parent.mkdir(parents=True, exist_ok=True)
        self._config.write_bytes(msgspec.json.encode(config))
        argv = [*module_command(self._module), str(self._config)]
        self._was_killed = self.is_down = False
        self._status = None
        self._process = start_client(argv, name=self.name, output=self._log)

    @property
    def status(self) -> StatusFile | None:
        """The mapped status file; None until the process has made it."""
        if self._status is None and self._process is not None:
            self._status = StatusFile.open(self._status_path)
        return self._status

    @property
    def state(self) -> ClientState:
        """The state that the process reports."""
        return ClientState.ABSENT if self.status is None else self.status.state

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.exit_status() is None

    def check(self) -> None:
        """Raise `HarnessError` when the process ended without being done or stopped.

        The error has the process's own reason. Raises `Disturbed` if something outside of the run ended the process.
        """
        if self._process is None or self.is_down or self.is_alive:
            return
        end = self.end()
        if not (self._stop_path.exists() or self._was_killed):
            self._refuse_disturbance(end)
        if not end.is_clean:
            raise HarnessError(
                f"{self.name} ended by itself with exit code {end.exit_code}",
                where=str(self._log.parent),
                got=end.message,
                next=log_command(self._log),
            )

    def _refuse_disturbance(self, end: ClientEnd) -> None:
        """Raise `Disturbed` if a process ended by a signal that the harness did not send."""
        if end.exit_code is not None and -end.exit_code in (*ENDING, signal.SIGKILL):
            how = how_ended(end.exit_code)
        elif end.state == ClientState.STOPPED:
            how = "in order, as SIGTERM does it"
        else:
            return
        raise Disturbed(f"something outside of the run ended the process of {self.name} ({how})")

    def await_state(self, states: Sequence[ClientState], timeout_s: float) -> None:
        """Wait until the process reports one of `states`.

        Raises `HarnessError` when the process dies, `WaitExpired`.
        """

        def is_reached() -> bool:
            self.check()
            return self.state in states

        wait_until(
            is_reached,
            awaited=f"{self.name} to be {' or '.join(state.name.lower() for state in states)}",
            timeout_s=timeout_s,
            last_seen=lambda: f"{self.state.name.lower()} {self._stderr()}".strip(),
        )

    def run_to_end(self, config: msgspec.Struct, start_client: StartClient, timeout_s: float) -> None:
        """Run a process that ends by itself.

        The process knows the deadline too, and its own error says more. Raises `HarnessError` with its reason, or
        `WaitExpired`.
        """
        self.start(config, start_client)
        try:
            wait_until(lambda: not self.is_alive, awaited=f"{self.name} to end", timeout_s=timeout_s + 5.0)
        finally:
            self.kill()
        self.check()

    def request_stop(self, *, leaves: bool = False) -> None:
        """Make the stop file; returns at once. A member that `leaves` commits before, and leaves its group."""
        if self.is_alive:
            write_atomically(self._stop_path, b"leave" if leaves else b"")

    def join(self, deadline: float) -> ClientEnd:
        """Wait until `deadline` (monotonic seconds) for the process to end, else kill it."""
        try:
            wait_until(
                lambda: not self.is_alive,
                awaited=f"{self.name} to end",
                timeout_s=max(0.0, deadline - time.monotonic()),
            )
        except WaitExpired:
            self.kill()
        return self.end()

    def kill(self) -> None:
        """SIGKILL the process and reap it; does nothing when it has ended."""
        if self._process is not None:
            self._was_killed = True
            self._process.kill()

    def end(self) -> ClientEnd:
        """Return how the process ended, or its state while it runs."""
        code = None if self._process is None else self._process.exit_status()
        reported = "" if self.status is None else self.status.text
        return ClientEnd(name=self.name, exit_code=code, state=self.state, message=reported or self._stderr())

    def _stderr(self) -> str:
        """Return the last lines that the process wrote."""
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, self._log.stat().st_size - _TAIL_BYTES))
                return file.read().decode(errors="replace").strip()
        except OSError:
            return ""


class ReplicaQuestion:
    """Replicas that a client process asks for their logs until `close`."""

    def __init__(self, client: Client, result: Path) -> None:
        self._client = client
        self._result = result
        self._sent = 0

    def answers(self) -> ReplicaAnswers:
        """Return the newest answers. Raises `HarnessError` when the process died."""
        self._client.check()
        try:
            return msgspec.json.decode(self._result.read_bytes(), type=ReplicaAnswers)
        except FileNotFoundError:
            return ReplicaAnswers()

    def administer(self, request: AdminRequest, timeout_s: float) -> AdminAnswer:
        """Have the process send an administrative request.

        Raises `HarnessError` that says why there is no answer.
        """
        self._sent += 1
        path = answer_file(str(self._result), self._sent)
        path.unlink(missing_ok=True)
        to_send = ToSend(request=request, timeout_s=timeout_s)
        write_atomically(request_file(str(self._result), self._sent), msgspec.json.encode(to_send))

        def is_there() -> bool:
            self._client.check()
            return path.exists()

        wait_until(is_there, awaited="Kafka's answer", timeout_s=timeout_s + 5.0)
        sent = msgspec.json.decode(path.read_bytes(), type=Sent)
        if sent.answer is None:
            raise HarnessError(sent.why)
        return sent.answer

    def close(self) -> None:
        """End the process."""
        self._client.kill()
