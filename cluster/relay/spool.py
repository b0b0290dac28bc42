"""The spool between the relay and its decoder: memory that both share, and that is in no file system.

An entry is a head and bytes: pieces of the recorded frames of one direction of one connection, in their order, or no
bytes where the connection ended. Entries fill segments of the memory. By a socket between the two, the relay passes on
the number of each full segment, and the decoder that of each one that it has read. The segment that was freed last is
filled next, and all are touched before clients begin: memory that was never used costs several times the copy. A client
waits while no segment is free: it is slowed, and nothing is left out. Where the decoder is gone, nothing more is
written, and nobody waits.

The memory holds payloads. It is gone with the two processes, in whatever way they end.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import socket
import struct
import sys
import termios
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from ebbtide import run_clock

SEGMENT_BYTES = 16 << 20
_SEGMENTS, _BEHIND_SEGMENTS = 32, 24
_KEPT_BACK = 2
"""Segments that only those get who wait for room when the relay ends."""
_POPULATE_WRITE = 23
"""MADV_POPULATE_WRITE of Linux 5.14, which the module mmap does not name."""
_MESSAGE_BYTES_MAX = 1 << 16
_ENTRY = struct.Struct("=IBqI")
_FULL, _FREE = struct.Struct("=II"), struct.Struct("=I")
_BEHIND_BYTES = _BEHIND_SEGMENTS * _FULL.size
_KINDS = ("request", "response", "ended")
_NUMBERS = {kind: number for number, kind in enumerate(_KINDS)}

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


Handles = tuple[int, int]
"""The memory, and the socket to the other process; both are inherited."""


@contextlib.contextmanager
def new_spool(segments: int = _SEGMENTS, size: int = SEGMENT_BYTES) -> Iterator[tuple[Handles, Handles]]:
    """Make a spool, and yield the handles of its writer and of its reader, which are open during the block."""
    with contextlib.ExitStack() as stack:
        memory = os.memfd_create("ebbtide-spool")
        stack.callback(os.close, memory)
        os.ftruncate(memory, segments * size)
        both = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for each in both:
            stack.callback(each.close)
        yield (memory, both[0].fileno()), (memory, both[1].fileno())


class SpoolWriter:
    """Writes a spool; its methods may be called by several threads."""

    def __init__(self, handles: Handles, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._memory, self._reader = mmap.mmap(handles[0], 0), socket.socket(fileno=os.dup(handles[1]))
        self._view = memoryview(self._memory)
        self._segment_bytes = segment_bytes
        count = len(self._view) // segment_bytes
        self._free = list(reversed(range(count)))
        self._kept_back = min(_KEPT_BACK, count - 1)
        self._segment: int | None = None
        self._at = 0
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._is_read = True
        self.waited_s = 0.0
        with contextlib.suppress(OSError):
            self._memory.madvise(_POPULATE_WRITE)
        threading.Thread(target=self._take_freed, daemon=True).start()

    def write(self, connection: int, kind: Kind, pieces: Sequence[bytes | memoryview] = ()) -> None:
        """Add an entry, once there is room for it."""
        size = sum(map(len, pieces))
        if size > self._segment_bytes - _ENTRY.size:
            whole = b"".join(pieces)
            self.write(connection, kind, [whole[: size // 2]])
            self.write(connection, kind, [whole[size // 2 :]])
            return
        with self._lock:
            if not self._make_room(_ENTRY.size + size):
                return
            at, view = self._at, self._view
            _ENTRY.pack_into(view, at, connection, _NUMBERS[kind], run_clock.now_ns(), size)
            at += _ENTRY.size
            for piece in pieces:
                view[at : at + len(piece)] = piece
                at += len(piece)
            self._at = at

    def end_waiting(self) -> None:
        """Let every entry in that still waits for room: its connection has ended."""
        with self._room:
            self._kept_back = 0
            self._room.notify_all()

    def end(self, end: SpoolEnd) -> None:
        """Complete the last segment, and say that it is the last."""
        with self._room:
            self._complete()
            with contextlib.suppress(OSError):
                self._reader.send(msgspec.json.encode(end).ljust(_BEHIND_BYTES))  # the reader has to hurry now
                self._reader.shutdown(socket.SHUT_WR)

    def _make_room(self, size: int) -> bool:
        """Have a segment with this room at `_at`; waiting lets other connections have the lock. False: no decoder."""
        while self._segment is None or self._at + size > (self._segment + 1) * self._segment_bytes:
            self._complete()
            if not self._is_read:
                return False
            if len(self._free) > self._kept_back:
                self._segment = self._free.pop()
                self._at = self._segment * self._segment_bytes
            else:
                began = time.monotonic()
                self._room.wait()
                self.waited_s += time.monotonic() - began
        return True

    def _complete(self) -> None:
        if self._segment is not None:
            segment, self._segment = self._segment, None
            try:
                self._reader.send(_FULL.pack(segment, self._at - segment * self._segment_bytes))
            except OSError:
                self._reader.shutdown(socket.SHUT_RDWR)  # a decoder that is there must not take this for the whole

    def _take_freed(self) -> None:
        with contextlib.suppress(ConnectionError):  # a decoder that was killed has left messages unread
            while message := self._reader.recv(_FREE.size):
                with self._room:
                    self._free.extend(_FREE.unpack(message))
                    self._room.notify_all()
        with self._room:
            self._is_read = False
            self._room.notify_all()


class SpoolReader:
    """Reads a spool while it is written; `end` is what the relay said at its end."""

    def __init__(self, handles: Handles, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._memory, self._writer = mmap.mmap(handles[0], 0), socket.socket(fileno=os.dup(handles[1]))
        self._segment_bytes = segment_bytes
        self.end = SpoolEnd()

    def entries(self) -> Iterator[SpoolEntry]:
        """Yield the entries, and free what was read, until the relay ends. Raises `EOFError` if it was killed."""
        while message := self._writer.recv(_MESSAGE_BYTES_MAX):
            if len(message) != _FULL.size:
                self.end = msgspec.json.decode(message, type=SpoolEnd)
                return
            segment, size = _FULL.unpack(message)
            yield from self._entries_of(segment * self._segment_bytes, size)
            with contextlib.suppress(OSError):  # the relay has ended meanwhile, and needs no room
                self._writer.send(_FREE.pack(segment))
        raise EOFError("the relay ended without saying so")

    @property
    def is_behind(self) -> bool:
        """Whether no more should be put off: the relay has ended, or has filled three quarters of the memory."""
        waiting = fcntl.ioctl(self._writer, termios.FIONREAD, bytes(4))
        return int.from_bytes(waiting, sys.byteorder) >= _BEHIND_BYTES

    def _entries_of(self, at: int, size: int) -> Iterator[SpoolEntry]:
        last = at + size
        while at < last:
            connection, kind, at_ns, size = _ENTRY.unpack_from(self._memory, at)
            at += _ENTRY.size
            yield SpoolEntry(connection, _KINDS[kind], at_ns, self._memory[at : at + size])  # type: ignore[arg-type]
            at += size
