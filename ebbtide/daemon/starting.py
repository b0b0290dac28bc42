"""Starts the owner of a cluster as a process of its own, which outlives the command or ends with it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from ebbtide.command import COMMAND
from ebbtide.daemon.control import log_of, sockets_dir, status_of
from ebbtide.daemon.messages import ClusterStatus
from ebbtide.errors import ExitCode, HarnessError
from ebbtide.waiting import wait_until

UP_TIMEOUT_S = 900.0
"""Long enough to fetch a release, or to build an image of it."""
END_TIMEOUT_S = 120.0
_TAIL_LINES = 15
_ERROR = "error: "


class DaemonEnded(HarnessError):
    """The owner ended before its cluster was up, or without having been told to; `code` is its exit code.

    Its own error is told, if it had one, else the end of its log.
    """

    def __init__(self, code: int, log: Path) -> None:
        self.code = code
        if code == ExitCode.USAGE:
            self.exit_code = ExitCode.USAGE
        ended, lines = f"the owner of the cluster ended with exit code {code}", _lines(log)
        error = next((at for at, line in enumerate(lines) if line.startswith(_ERROR)), None)
        if error is None:
            super().__init__(ended, where=str(log), got="\n           ".join(lines[-_TAIL_LINES:]))
        else:
            own = "\n".join(lines[error:]).removeprefix(_ERROR)
            super().__init__(f"{own}\n  log:     {log} ({ended})")


class DaemonProcess:
    """`ebbtide ARGUMENTS`, which owns the cluster `name`, in a session of its own: Ctrl-C does not reach it.

    `tied`: it ends when this process does, or `end` is called. `command`: the words that start the command; by default
    those of this environment.
    """

    def __init__(
        self, arguments: Sequence[str], name: str, *, tied: bool, command: Sequence[str] | None = None
    ) -> None:
        # Made as this user, so that an owner with root's powers knows whose it is.
        sockets_dir().mkdir(parents=True, exist_ok=True, mode=0o700)
        self.name = name
        self.log = log_of(name)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*(COMMAND if command is None else command), *arguments],
                stdin=subprocess.PIPE if tied else subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def await_up(self, told: Callable[[str], None] = lambda _: None) -> ClusterStatus:
        """Wait until the cluster is up; `told` hears each line that the owner says.

        Raises `DaemonEnded`; on any other way out, Ctrl-C among them, the owner is ended first.
        """
        heard = 0

        def listen() -> None:
            nonlocal heard
            lines = _lines(self.log)
            for line in lines[heard:]:
                told(line)
            heard = len(lines)

        def up() -> ClusterStatus | None:
            ended = self._process.poll()
            listen()
            if ended is not None:
                raise DaemonEnded(ended, self.log)
            return status_of(self.name)

        try:
            status = wait_until(up, awaited=f"{self.name} to be up", timeout_s=UP_TIMEOUT_S, poll_s=0.2)
        except BaseException:
            self.terminate()
            raise
        listen()
        return status

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float = END_TIMEOUT_S) -> int:
        """Its exit code, once it has ended. Raises `WaitExpired`."""
        wait_until(
            lambda: self._process.poll() is not None, awaited=f"the owner of {self.name} to end", timeout_s=timeout_s
        )
        return int(self._process.wait())

    def terminate(self) -> None:
        """SIGTERM, and wait until it has undone everything."""
        if self._process.poll() is None:
            self._process.terminate()
            self.wait()
        self.let_go()

    def forget_log(self) -> None:
        """Remove the log of an owner that ended well; that of another is evidence."""
        if self._process.poll() == 0:
            self.log.unlink(missing_ok=True)

    def let_go(self) -> None:
        """Forget the process: a tied one ends, another goes on without us."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        # Python warns of children that are dropped while they run.
        if self._process.returncode is None:
            self._process.returncode = 0


def _lines(log: Path) -> list[str]:
    """The whole lines of a log; none where its owner ended well, and removed it."""
    try:
        return [line.decode(errors="replace") for line in log.read_bytes().split(b"\n")[:-1]]
    except FileNotFoundError:
        return []
