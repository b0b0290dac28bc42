"""Counters in a small mapped file: a client process writes, the harness reads.

The file is a row of int64 slots and a text. One process writes each slot in one store, so that a reader sees the old
or the new number, never half of one. Two slots need not be of the same moment. Blocks are allocated when the file is
made: a client can still say why it stopped when the disk is full.
"""

from __future__ import annotations

import mmap
import os
from enum import IntEnum
from pathlib import Path

from ebbtide.errors import HarnessError
from ebbtide.record.files import new_file

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
        """Make the file anew, all counters 0, state STARTING. Raises `HarnessError`."""
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
