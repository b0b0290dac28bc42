"""Starts the daemon of a cluster as a process of its own.

The process outlives the command, or ends with it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from ebbtide.command import COMMAND
from ebbtide.daemon.control import log_of, make_sockets_dir, status_of
from ebbtide.daemon.messages import ClusterStatus
from ebbtide.errors import ExitCode, HarnessError
from ebbtide.folding import unfolded_environment
from ebbtide.memory import how_ended
from ebbtide.waiting import wait_until

UP_TIMEOUT_S = 900.0
"""Long enough to fetch a release, or to build its image."""
END_TIMEOUT_S = 120.0
"""How long a run or a daemon can take to undo its faults, end its nodes and remove its network."""
_TAIL_LINES = 15
_ERROR = "error: "


class DaemonEnded(HarnessError):
    """The daemon ended before its cluster was up, or without being asked.

    `code` is its exit code. The message is the daemon's own error if it had one, else the end of its log.
    """

    def __init__(self, code: int, log: Path) -> None:
        self.code = code
        if code == ExitCode.USAGE:
            self.exit_code = ExitCode.USAGE
        ended, lines = f"the daemon of the cluster ended: {how_ended(code)}", _lines(log)
        error = next((at for at, line in enumerate(lines) if line.startswith(_ERROR)), None)
        if error is None:
            super().__init__(ended, where=str(log), got="\n           ".join(lines[-_TAIL_LINES:]))
        else:
            own = "\n".join(lines[error:]).removeprefix(_ERROR)
            super().__init__(f"{own}\n  log:     {log} ({ended})")


class DaemonProcess:
    """`ebbtide ARGUMENTS`, the daemon of the cluster `name`, in a session of its own.

    Ctrl-C does not reach it. `tied`: it ends when this process does, or `end` is called. `command`: the words that
    start the command; by default those of this environment.
    """

    def __init__(
        self, arguments: Sequence[str], name: str, *, tied: bool, command: Sequence[str] | None = None
    ) -> None:
        # Made as this user, so that a daemon that runs as root knows the user.
        make_sockets_dir()
        self.name = name
        self.log = log_of(name)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*(COMMAND if command is None else command), *arguments],
                stdin=subprocess.PIPE if tied else subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=unfolded_environment(),
                start_new_session=True,
            )

    def await_up(self, note: Callable[[str], None] = lambda _: None) -> ClusterStatus:
        """Wait until the cluster is up; `note` gets each line of the daemon's log.

        Raises `DaemonEnded`. On any other exception, for example Ctrl-C, the daemon is ended first.
        """
        heard = 0

        def listen() -> None:
            nonlocal heard
            lines = _lines(self.log)
            for line in lines[heard:]:
                note(line)
            heard = len(lines)

        def poll_status() -> ClusterStatus | None:
            ended = self._process.poll()
            listen()
            if ended is not None:
                raise DaemonEnded(ended, self.log)
            return status_of(self.name)

        try:
            status = wait_until(poll_status, awaited=f"{self.name} to be up", timeout_s=UP_TIMEOUT_S, poll_s=0.2)
        except BaseException:
            self.terminate()
            raise
        listen()
        return status

    def exit_code(self) -> int | None:
        """Return the exit code; None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float = END_TIMEOUT_S) -> int:
        """Wait until the daemon has ended; returns its exit code. Raises `WaitExpired`."""
        wait_until(
            lambda: self._process.poll() is not None, awaited=f"the daemon of {self.name} to end", timeout_s=timeout_s
        )
        return int(self._process.wait())

    def terminate(self) -> None:
        """Send SIGTERM, and wait until the daemon has undone everything."""
        if self._process.poll() is None:
            self._process.terminate()
            self.wait()
        self.let_go()

    def last_words(self) -> str:
        """Return the end of the log. A daemon that another process ended well has none."""
        gone = f"another process ended {self.name}, as ebbtide cluster down does"
        return self.log.read_text(errors="replace")[-2000:] if self.log.exists() else gone

    def forget_log(self) -> None:
        """Remove the log of a daemon that ended well; any other log is evidence."""
        if self._process.poll() == 0:
            self.log.unlink(missing_ok=True)

    def let_go(self) -> None:
        """Release the process: a tied daemon ends, another one continues."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        # Python warns about children that are dropped while they run.
        if self._process.returncode is None:
            self._process.returncode = 0


def _lines(log: Path) -> list[str]:
    """Return the whole lines of a log; none if the daemon ended well and removed it."""
    try:
        return [line.decode(errors="replace") for line in log.read_bytes().split(b"\n")[:-1]]
    except FileNotFoundError:
        return []
