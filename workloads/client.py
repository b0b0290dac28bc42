"""One client process as the harness sees it: started, watched through its status file, stopped, killed by pid."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from cluster.runtime.base import ClientProcess, StartClient
from ebbtide.command import program
from ebbtide.errors import HarnessError
from ebbtide.record.files import to_read
from ebbtide.waiting import WaitExpired, wait_until
from workloads.config import Endpoints
from workloads.status import ClientState, StatusFile

_TAIL_BYTES = 2_000


class ClientEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How one client ended. `exit_code` is negative for a signal (-9: it had to be killed), None while alive."""

    name: str
    exit_code: int | None
    state: ClientState
    message: str

    @property
    def clean(self) -> bool:
        """Whether it ended by itself and its journal is all that it had to say."""
        return self.exit_code == 0 and self.state in (ClientState.DONE, ClientState.STOPPED)


class Client:
    """A process running `python -m MODULE CONFIG.json`.

    `folder` holds its configuration, status and stop files, `log` its stdout and stderr.
    """

    def __init__(self, name: str, module: str, folder: Path, log: Path) -> None:
        self.name = name
        self._module = module
        self._config = folder / f"{name}.json"
        self._log = log
        self._status_path = folder / f"{name}.status"
        self._stop_path = folder / f"{name}.stop"
        self._status: StatusFile | None = None
        self._process: ClientProcess | None = None

    @property
    def endpoints(self) -> Endpoints:
        """What the process is told about meeting the harness."""
        return Endpoints(status=str(self._status_path), stop=str(self._stop_path))

    def start(self, config: msgspec.Struct, start_client: StartClient) -> None:
        """Write the configuration and start the process. Raises `HarnessError`."""
        for path in (self._status_path, self._stop_path):
            path.unlink(missing_ok=True)
        self._config.parent.mkdir(parents=True, exist_ok=True)
        self._config.write_bytes(msgspec.json.encode(config))
        argv = [*program(self._module), str(self._config)]
        self._process = start_client(argv, name=self.name, output=self._log)

    @property
    def status(self) -> StatusFile | None:
        """The mapped status file; None until the process has made it."""
        if self._status is None and self._process is not None:
            self._status = StatusFile.open(self._status_path)
        return self._status

    @property
    def state(self) -> ClientState:
        """The process's own word."""
        return ClientState.ABSENT if self.status is None else self.status.state

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.exit_status() is None

    def check(self) -> None:
        """Raises `HarnessError` with the process's reason when it ended without having been done or stopped."""
        if self._process is None or self.alive:
            return
        end = self.end()
        if not end.clean:
            raise HarnessError(
                f"{self.name} ended by itself with exit code {end.exit_code}",
                where=str(self._log.parent),
                got=end.message,
                next=to_read(self._log),
            )

    def await_state(self, states: Sequence[ClientState], timeout_s: float) -> None:
        """Wait until the process says one of `states`; raises `HarnessError` when it dies, `WaitExpired`."""

        def reached() -> bool:
            self.check()
            return self.state in states

        wait_until(
            reached,
            awaited=f"{self.name} to be {' or '.join(state.name.lower() for state in states)}",
            timeout_s=timeout_s,
            last_seen=lambda: f"{self.state.name.lower()} {self._stderr()}".strip(),
        )

    def run_to_end(self, config: msgspec.Struct, start_client: StartClient, timeout_s: float) -> None:
        """Run a process that ends by itself; it knows the deadline too, and says more when it expires.

        Raises `HarnessError` with its reason, or `WaitExpired`.
        """
        self.start(config, start_client)
        try:
            wait_until(lambda: not self.alive, awaited=f"{self.name} to end", timeout_s=timeout_s + 5.0)
        finally:
            self.kill()
        self.check()

    def tell_to_stop(self) -> None:
        """Make the stop file; returns at once."""
        if self.alive:
            self._stop_path.touch()

    def join(self, deadline: float) -> ClientEnd:
        """Wait until `deadline` (monotonic) for the process to end, else kill it."""
        try:
            wait_until(
                lambda: not self.alive,
                awaited=f"{self.name} to end",
                timeout_s=max(0.0, deadline - time.monotonic()),
            )
        except WaitExpired:
            self.kill()
        return self.end()

    def kill(self) -> None:
        """SIGKILL the process and reap it; nothing happens when it is gone."""
        if self._process is not None:
            self._process.kill()

    def end(self) -> ClientEnd:
        """How it ended, or how it stands."""
        code = None if self._process is None else self._process.exit_status()
        told = "" if self.status is None else self.status.text
        return ClientEnd(name=self.name, exit_code=code, state=self.state, message=told or self._stderr())

    def _stderr(self) -> str:
        """The last lines that the process wrote."""
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, self._log.stat().st_size - _TAIL_BYTES))
                return file.read().decode(errors="replace").strip()
        except OSError:
            return ""
