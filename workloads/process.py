"""The life of a client process: it stops when asked, says why it failed, and counts what it does.

Its counters are a row of int64 slots and a text in a small mapped file, which the harness reads. One process writes
each slot in one store, so that a reader sees the old or the new number, never half of one. Two slots need not be of the
same moment. Blocks are allocated when the file is made: a client can still say why it stopped when the disk is full.
"""

from __future__ import annotations

import logging
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path

from ebbtide import run_clock
from ebbtide.errors import EbbtideError, HarnessError
from ebbtide.record.files import new_file
from workloads.config import Endpoints

MAGIC = 0x4542425354415431
TEXT_BYTES = 2048
_HEAD_SLOTS = 5
_MAGIC, _PID, _STATE, _SLOTS, _TEXT = range(_HEAD_SLOTS)


class ClientState(IntEnum):
    """The state of a client process.

    DONE: a producer has handed over its `count` and every record has its outcome. STOPPED: it was stopped. FAILED: it
    ended by an error, which the text describes.
    """

    ABSENT = 0
    STARTING = 1
    RUNNING = 2
    DONE = 3
    STOPPED = 4
    FAILED = 5


class StatusFile:
    """One status file, mapped; `create` is for the client, `open` for the harness."""

    def __init__(self, mapped: mmap.mmap) -> None:
        self._map = mapped
        self._longs = memoryview(mapped).cast("q")

    @classmethod
    def create(cls, path: Path, slots: int) -> StatusFile:
        """Make a new file, all counters 0, state STARTING. Raises `HarnessError`."""
        size = 8 * (_HEAD_SLOTS + slots) + TEXT_BYTES
        try:
            # The harness must not open an incomplete file.
            with new_file(path) as file:
                os.posix_fallocate(file.fileno(), 0, size)
                status = cls(mmap.mmap(file.fileno(), size))
                longs = status._longs
                longs[_PID], longs[_SLOTS], longs[_STATE] = os.getpid(), slots, ClientState.STARTING
                longs[_MAGIC] = MAGIC
        except OSError as error:
            raise HarnessError("cannot make a client's status file", where=str(path), got=str(error)) from None
        return status

    @classmethod
    def open(cls, path: Path) -> StatusFile | None:
        """Return the file of a client; None while the client has not made it."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            mapped = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        finally:
            os.close(fd)
        status = cls(mapped)
        return status if status._longs[_MAGIC] == MAGIC else None

    @property
    def state(self) -> ClientState:
        """The state that the client reported last; a killed client's last state stays."""
        return ClientState(self._longs[_STATE])

    @property
    def text(self) -> str:
        """Why the client failed; empty otherwise."""
        start = 8 * (_HEAD_SLOTS + self._longs[_SLOTS])
        return bytes(self._map[start : start + self._longs[_TEXT]]).decode(errors="replace")

    def get(self, slot: int) -> int:
        """Return counter `slot`."""
        return self._longs[_HEAD_SLOTS + slot]

    def put(self, slot: int, value: int) -> None:
        """Set counter `slot`; only the client does."""
        self._longs[_HEAD_SLOTS + slot] = value

    def set_state(self, state: ClientState, text: str = "") -> None:
        """Set the state; `text` is cut to what fits."""
        data = text.encode()[:TEXT_BYTES]
        start = 8 * (_HEAD_SLOTS + self._longs[_SLOTS])
        self._map[start : start + len(data)] = data
        self._longs[_TEXT] = len(data)
        self._longs[_STATE] = state


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
