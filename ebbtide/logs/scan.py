"""Walks the batches of a log file; every byte is in a batch or in a `Damage`.

Some damage can be passed, other damage cannot. A batch with a wrong checksum, whose length leads to another good
batch, is one damaged batch. Where the length itself cannot be trusted nothing behind it can be found again, and the
rest is reported as one piece.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

import msgspec

from ebbtide.logs.batches import HEADER_SIZE, LENGTH_END, MAGIC, Batch, parse_header
from ebbtide.logs.codecs import BATCH_BYTES_MAX

DamageKind = Literal["torn", "zeros", "header", "checksum", "order", "records", "hole"]

WINDOW_BYTES = 4 << 20
_MAGIC_AT = 16


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a log file that are not a readable batch.

    `kind`:

    - torn: fewer bytes than the batch claims
    - zeros: the file was extended and never written
    - header: no batch starts here
    - checksum: the CRC does not match
    - order: offsets do not go up
    - records: the batch is intact, its content is not
    - hole: offsets are missing before this segment

    `tail`: nothing readable follows. `base_offset` is the header's, where there is one.
    """

    position: int
    size: int
    kind: DamageKind
    detail: str
    tail: bool
    base_offset: int | None = None


class Source(Protocol):
    """Bytes with a size that was fixed when reading began."""

    size: int

    def view(self, position: int, size: int) -> memoryview:
        """Return the bytes from `position` on, fewer than `size` at the end."""

    def data_from(self, position: int) -> int:
        """Return a position from `position` on, before which there are only zeros: gigabytes of them cost nothing."""


class FileSource:
    """A source over an open file, read in blocks.

    Not an mmap: a broker may truncate the file while it is read, which would end this process with SIGBUS.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._fd = file.fileno()
        self.size = os.fstat(self._fd).st_size
        self._start = 0
        self._window = memoryview(b"")

    def view(self, position: int, size: int) -> memoryview:
        """Return the bytes from `position` on; see `Source`."""
        at = position - self._start
        if at < 0 or at + size > len(self._window):
            self._window = memoryview(os.pread(self._fd, max(size, WINDOW_BYTES), position))
            self._start = position
            at = 0
        return self._window[at : at + size]

    def data_from(self, position: int) -> int:
        """Return the first position from `position` on that is not in a hole of the file."""
        try:
            return os.lseek(self._fd, position, os.SEEK_DATA)
        except OSError as error:
            return self.size if error.errno == errno.ENXIO else position


def scan(source: Source, start: int = 0, *, verify: bool = True, after_offset: int = -1) -> Iterator[Batch | Damage]:
    """Yield the batches of `source` from position `start`, and every damage, in order.

    `verify=False` skips checksums, for files that were verified before. `after_offset` is the last offset before
    `start`; offsets must go up from there.
    """
    held: list[Damage] = []
    for item in _walk(source, start, verify, after_offset):
        if isinstance(item, Damage):
            held.append(item)
            continue
        # Only a readable batch behind a damage shows that the damage is not the tail.
        yield from (msgspec.structs.replace(damage, tail=False) for damage in held)
        held.clear()
        yield item
    yield from held


def scan_file(path: Path, *, verify: bool = True) -> Iterator[Batch | Damage]:
    """Scan a whole file; see `scan`."""
    with path.open("rb") as file:
        yield from scan(FileSource(file), verify=verify)


def _walk(source: Source, position: int, verify: bool, last_offset: int) -> Iterator[Batch | Damage]:
    while position < source.size:
        head = source.view(position, HEADER_SIZE)
        broken = _header_damage(source, position, head)
        if broken is not None:
            yield broken
            return
        size = _size(head)
        batch = parse_header(source.view(position, size), position)
        if verify and not batch.crc_matches():
            yield _damage(batch, "checksum", "CRC-32C does not match")
        elif batch.base_offset <= last_offset or batch.last_offset < batch.base_offset:
            yield _damage(batch, "order", f"offsets {batch.base_offset} to {batch.last_offset} after {last_offset}")
        else:
            last_offset = batch.last_offset
            yield batch
        position += size


def _size(head: memoryview) -> int:
    return int.from_bytes(head[8:LENGTH_END], "big", signed=True) + LENGTH_END


def _damage(batch: Batch, kind: DamageKind, detail: str) -> Damage:
    return Damage(
        position=batch.position, size=batch.size, kind=kind, detail=detail, tail=True, base_offset=batch.base_offset
    )


def _header_damage(source: Source, position: int, head: memoryview) -> Damage | None:
    left = source.size - position
    kind: DamageKind
    # Fewer zeros may be the start of a batch: offsets begin with zero bytes, lengths are never zero.
    if left >= LENGTH_END and not any(head) and _zeros_to_the_end(source, position):
        kind, detail = "zeros", f"{left} zero bytes to the end of the file"
    elif len(head) < HEADER_SIZE:
        kind, detail = "torn", f"{left} bytes, a batch header has {HEADER_SIZE}"
    elif _size(head) < HEADER_SIZE:
        kind, detail = "header", f"the length field says {_size(head) - LENGTH_END}"
    elif head[_MAGIC_AT] != MAGIC:
        kind, detail = "header", f"magic {head[_MAGIC_AT]}, only {MAGIC} is read"
    elif left >= _size(head) > BATCH_BYTES_MAX:
        kind, detail = "header", f"the length field says {_size(head):,} bytes, up to {BATCH_BYTES_MAX:,} are read"
    elif left < _size(head) or len(source.view(position, _size(head))) < _size(head):
        kind, detail = "torn", f"{left} bytes of a batch of {_size(head)}"
    else:
        return None
    offset = int.from_bytes(head[:8], "big", signed=True) if kind == "torn" and len(head) >= 8 else None
    return Damage(position=position, size=left, kind=kind, detail=detail, tail=True, base_offset=offset)


def _zeros_to_the_end(source: Source, position: int) -> bool:
    while (position := source.data_from(position)) < source.size:
        block = source.view(position, min(WINDOW_BYTES, source.size - position))
        if not block:
            return True
        if bytes(block).strip(b"\0"):
            return False
        position += len(block)
    return True
