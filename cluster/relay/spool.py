"""The spool between the relay and its decoder: raw bytes of frames, in files that the decoder removes.

An entry is a head and bytes: pieces of the recorded frames of one direction of one connection, in their order, or no
bytes where the connection ended. A file of the spool gets its name when it is complete. A file that was read is written
again, because memory that was never used costs several times the copy. So the decoder makes some files before clients
begin. A client waits while the files together have `BYTES_MAX`: it is slowed, and nothing is left out. The files hold
payloads, so they are in a folder of the run that is removed before the record is complete.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from ebbtide import run_clock

BYTES_MAX = 512 << 20
FILE_BYTES = 16 << 20
SPARE_FILES = 12
_LOOK_S = 0.02
_ENTRY = struct.Struct(">IBqI")
_SUFFIX, _FREE = ".spool", ".free"
_WAKE = threading.Event()
_END = "end.json"
_KINDS = ("request", "response", "ended")

Kind = Literal["request", "response", "ended"]


class SpoolEntry(NamedTuple):
    """Bytes of one direction of a connection, and when the last of them was read or passed on."""

    connection: int
    kind: Kind
    at_ns: int
    data: bytes


class SpoolEnd(msgspec.Struct, frozen=True, kw_only=True):
    """What the relay says when it has ended.

    - `unrecorded`: how many requests it passed on without recording them, by API key.
    - `unread`: how many connections were not Kafka's protocol, from some byte on.
    - `waited_s`: how long clients waited for room in the spool, over all connections.
    """

    unrecorded: Mapping[int, int] = {}
    unread: int = 0
    waited_s: float = 0.0


class SpoolWriter:
    """Writes the spool in `folder`; its methods may be called by several threads."""

    def __init__(self, folder: Path, *, bytes_max: int = BYTES_MAX, file_bytes: int = FILE_BYTES) -> None:
        self._folder = folder
        self._bytes_max, self._file_bytes = bytes_max, file_bytes
        self._lock = threading.Lock()
        self._number = self._size = 0
        self._complete_bytes: dict[Path, int] = {}
        self._unread_bytes = 0
        self._is_ending = False
        self.waited_s = 0.0
        self._file = self._open()

    def write(self, connection: int, kind: Kind, pieces: Sequence[bytes | memoryview] = ()) -> None:
        """Add an entry, once there is room for it."""
        size = sum(map(len, pieces))
        self._await_room()
        with self._lock:
            head = _ENTRY.pack(connection, _KINDS.index(kind), run_clock.now_ns(), size)
            _write_whole(self._file, [head, *pieces])
            self._size += len(head) + size
            if self._size >= self._file_bytes:
                self._complete()
                self._file = self._open()

    def end_waiting(self) -> None:
        """Let every entry in that still waits for room: its connection has ended."""
        with self._lock:
            self._is_ending = True

    def end(self, end: SpoolEnd) -> None:
        """Complete the last file, and say that it is the last."""
        with self._lock:
            self._complete()
            self._file = -1  # an entry that comes too late fails, and is not left out silently
            part = self._folder / f"{_END}.part"
            part.write_bytes(msgspec.json.encode(end))
            part.rename(self._folder / _END)

    def _open(self) -> int:
        self._number, self._size = self._number + 1, 0
        if (free := next(self._folder.glob(f"*{_FREE}"), None)) is not None:
            free.rename(self._path(".part"))
        return os.open(self._path(".part"), os.O_WRONLY | os.O_CREAT, 0o600)

    def _complete(self) -> None:
        os.ftruncate(self._file, self._size)
        os.close(self._file)
        self._complete_bytes[self._path(_SUFFIX)] = self._size
        self._unread_bytes += self._size
        self._path(".part").rename(self._path(_SUFFIX))

    def _path(self, suffix: str) -> Path:
        return self._folder / f"{self._number:08d}{suffix}"

    def _await_room(self) -> None:
        """Wait without the lock, so that only the connections wait that have something to record."""
        began = time.monotonic()
        while not self._has_room():
            _WAKE.wait(_LOOK_S)
        if (waited_s := time.monotonic() - began) >= _LOOK_S:
            with self._lock:
                self.waited_s += waited_s

    def _has_room(self) -> bool:
        with self._lock:
            # The decoder frees the files in their order.
            while self._is_full() and not (oldest := next(iter(self._complete_bytes))).exists():
                self._unread_bytes -= self._complete_bytes.pop(oldest)
            return self._is_ending or not self._is_full()

    def _is_full(self) -> bool:
        return self._unread_bytes + self._file_bytes > self._bytes_max


def make_spare_files(folder: Path, *, count: int = SPARE_FILES, size: int = FILE_BYTES) -> None:
    """Make files that the writer may use."""
    for number in range(count):
        path = folder / f"spare-{number}"
        path.write_bytes(bytes(size))
        path.rename(path.with_suffix(_FREE))


def read_spool(folder: Path) -> Iterator[SpoolEntry]:
    """Yield the entries of a spool while it is written, and free each file that was read; ends with the relay."""
    number = 1
    while True:
        is_last = (folder / _END).exists()
        path = folder / f"{number:08d}{_SUFFIX}"
        if path.exists():
            yield from _entries_of(path)
            path.rename(path.with_suffix(_FREE))
            number += 1
        elif is_last:
            for free in folder.glob(f"*{_FREE}"):
                free.unlink()
            return
        else:
            _WAKE.wait(_LOOK_S)


def read_end(folder: Path) -> SpoolEnd:
    """Return what the relay said when it had ended."""
    return msgspec.json.decode((folder / _END).read_bytes(), type=SpoolEnd)


def _entries_of(path: Path) -> Iterator[SpoolEntry]:
    with path.open("rb") as file:
        while head := file.read(_ENTRY.size):
            connection, kind, at_ns, size = _ENTRY.unpack(head)
            yield SpoolEntry(connection, _KINDS[kind], at_ns, file.read(size))  # type: ignore[arg-type]


def _write_whole(file: int, pieces: list[bytes | memoryview]) -> None:
    left = sum(map(len, pieces)) - os.writev(file, pieces)
    while left:
        # A disk that is nearly full takes a part; the next write says why.
        rest = b"".join(pieces)[-left:]
        left -= os.write(file, rest)
