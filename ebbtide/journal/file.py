"""Append-only binary journals that survive the death of their writer.

A file is the 8 bytes of `MAGIC` and then frames:

    length u32 | crc u32 | kind u8 | payload (length - 1 bytes)

`length` counts kind and payload, the CRC-32 covers them. The first frame is the header. Numbers are in the machine's
byte order: a journal never leaves the machine before it has become a table.

Frames are handed to the kernel whole, by write(2) on an O_APPEND descriptor, every few milliseconds. A SIGKILL loses
what was not handed over yet, at most one flush interval. Nothing is fsynced, because in a run the clients die, not
the host. Bytes that do not read as a whole frame are the *torn tail*: they are counted, and never guessed.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ebbtide.errors import HarnessError
from ebbtide.untrusted.files import open_file
from ebbtide.untrusted.values import decode_json

MAGIC = b"EBBJRNL1"
FRAME_BYTES_MAX = 64 << 20
"""A greater length can only be damage."""

_FRAME = struct.Struct("=II")
_KIND = struct.Struct("=B")
HEADER = 0


class JournalError(HarnessError):
    """The journal cannot be written, so that the client stops.

    Otherwise rows would be missing without a trace.
    """


class JournalHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The values that all rows of one journal share.

    `table` is the record's table that it becomes. `id` is the producer's or consumer's. `topics` are the names that
    frames refer to by index.
    """

    table: str
    id: int = 0
    topics: tuple[str, ...]
    acks: int | None = None
    isolation: str | None = None
    group: str | None = None


def frame(kind: int, payload: bytes) -> bytes:
    """Return one frame, ready to be written."""
    body = _KIND.pack(kind) + payload
    return _FRAME.pack(len(body), zlib.crc32(body)) + body


NUMBERS_OF_A_LIFE = 1 << 30
"""A client that a step starts again counts its records on from a multiple of this: an earlier process may have handed
over records that its journal lacks."""


class JournalWriter:
    """The only writer of one journal file; not thread-safe.

    `life`: how many processes of this client a step ended before. Their journal is continued, from `first_number` on.
    """

    def __init__(self, path: Path, header: JournalHeader, life: int = 0) -> None:
        self.path = path
        self.first_number = life * NUMBERS_OF_A_LIFE
        fresh = 0 if life else os.O_TRUNC
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | fresh | os.O_APPEND | os.O_CLOEXEC, 0o644)
            is_empty = not os.fstat(self._fd).st_size
        except OSError as error:
            raise self._write_error(error) from None
        if is_empty:
            self.write([MAGIC, frame(HEADER, msgspec.json.encode(header))])

    def write(self, frames: list[bytes]) -> None:
        """Hand whole frames to the kernel.

        Raises `JournalError` when it does not accept every byte.
        """
        data = memoryview(b"".join(frames))
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except OSError as error:
                raise self._write_error(error) from None

    def close(self) -> None:
        """Close the descriptor; the kernel has all frames already."""
        os.close(self._fd)

    def _write_error(self, error: OSError) -> JournalError:
        return JournalError(
            "the journal cannot be written, so that later records would have no row",
            where=str(self.path),
            got=error.strerror or str(error),
            next="free disk space or name another run folder, then run the scenario again",
        )


def cut_torn_tail(path: Path) -> None:
    """Cut what a killed writer left unfinished at the end of its journal, if it has made one."""
    if path.exists():
        reader = JournalReader(path)
        for _ in reader.frames():
            pass
        os.truncate(path, reader.size - reader.torn_bytes)


class JournalReader:
    """The frames of one journal in writing order, one in memory at a time.

    `header` is None when not even the header was written whole. Raises `msgspec.DecodeError` for a damaged
    header, and `UnreadableFile` if `path` is not a file. `torn_bytes` is final once `frames` is exhausted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_file(path, what="a journal of the record") as file:
            self.size = os.fstat(file.fileno()).st_size
        self.torn_bytes = self.size
        self.header: JournalHeader | None = None
        for kind, payload in self._walk():
            if kind == HEADER:
                self.header = decode_json(payload, JournalHeader)
            break

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Yield kind and payload of every whole frame after the header."""
        for kind, payload in self._walk():
            if kind != HEADER:
                yield kind, payload

    def _walk(self) -> Iterator[tuple[int, bytes]]:
        self.torn_bytes = self.size
        with open_file(self.path, what="a journal of the record") as file:
            if file.read(len(MAGIC)) != MAGIC:
                return
            self.torn_bytes -= len(MAGIC)
            while head := file.read(_FRAME.size):
                if len(head) < _FRAME.size:
                    return
                length, crc = _FRAME.unpack(head)
                if not 0 < length <= FRAME_BYTES_MAX:
                    return
                body = file.read(length)
                if len(body) < length or zlib.crc32(body) != crc:
                    return
                self.torn_bytes -= _FRAME.size + length
                yield body[0], body[1:]
