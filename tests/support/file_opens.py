"""Counts how often files are opened, by any code of any process: the kernel says so."""

from __future__ import annotations

import ctypes
import os
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OPENED, _CLOSED, _OF_FOLDER, _LOST = 0x20, 0x10, 0x40000000, 0x4000
_EVENT = struct.Struct("iIII")
_LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def opens_in(folder: Path) -> Iterator[Counter[str]]:
    """Count the opens of files that are in a folder, or in folders in it, when the block begins, by their names."""
    counted: Counter[str] = Counter()
    notices = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert notices >= 0, os.strerror(ctypes.get_errno())
    try:
        watched = {_watch(notices, path): path for path in (folder, *folder.rglob("*")) if path.is_dir()}
        yield counted
        for number, mask, name in _events(notices):
            assert not mask & _LOST, "the kernel dropped events"
            if mask & _OPENED and not mask & _OF_FOLDER and name:
                counted[str((watched[number] / name).relative_to(folder))] += 1
    finally:
        os.close(notices)


def _watch(notices: int, folder: Path) -> int:
    # Two equal events in a row are one. So each open is followed by the close.
    number: int = _LIBC.inotify_add_watch(notices, os.fsencode(folder), _OPENED | _CLOSED)
    assert number >= 0, os.strerror(ctypes.get_errno())
    return number


def _events(notices: int) -> Iterator[tuple[int, int, str]]:
    while True:
        try:
            read = os.read(notices, 1 << 20)
        except BlockingIOError:
            return
        at = 0
        while at < len(read):
            number, mask, _, length = _EVENT.unpack_from(read, at)
            at += _EVENT.size
            yield number, mask, os.fsdecode(read[at : at + length].rstrip(b"\0"))
            at += length
