"""The life of a client process: it stops when asked, and says why it failed."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ebbtide import run_clock
from ebbtide.errors import EbbtideError
from workloads.config import Endpoints
from workloads.status import ClientState, StatusFile


class Stop:
    """Whether this process was asked to stop: by SIGTERM, SIGINT or its stop file."""

    def __init__(self, stop_file: str) -> None:
        self._file = stop_file
        self._stopping = False
        self.is_leaving = False
        """Whether a step stops this client, so that it leaves its group as an application that is shut down."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._stopping = True

    def __bool__(self) -> bool:
        if not self._stopping and os.path.exists(self._file):
            self._stopping = True
            self.is_leaving = os.path.getsize(self._file) > 0
        return self._stopping


def _log_warnings() -> None:
    """Write the client library's warnings to stderr, with the time in UTC as in the brokers' logs."""
    handler = logging.StreamHandler()
    formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s - %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def run_client(endpoints: Endpoints, slots: int, body: Callable[[StatusFile, Stop], ClientState]) -> int:
    """Run `body` as the life of this process and return the exit code.

    `body` returns its last state. An `EbbtideError` becomes the state FAILED with its message, also on stderr. Any
    other exception is a bug in Ebbtide and is reported in the same way, with its traceback on stderr. What the client
    library warns of goes to stderr, which is the client's log in the record.
    """
    _log_warnings()
    if endpoints.clock_base_ns is not None:
        run_clock.use_base(endpoints.clock_base_ns)
    stop = Stop(endpoints.stop)
    status = StatusFile.create(Path(endpoints.status), slots)
    try:
        status.set_state(body(status, stop))
    except EbbtideError as error:
        status.set_state(ClientState.FAILED, error.render())
        sys.stderr.write(f"error: {error.render()}\n")
        return int(error.exit_code)
    except Exception as error:
        status.set_state(ClientState.FAILED, f"{type(error).__name__}: {error}")
        raise
    return 0


def end_as_child_did(number: int) -> None:
    """End this process by the signal that ended its child."""
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
