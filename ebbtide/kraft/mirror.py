"""The copy of a metadata log that a follower writes into the run record.

It holds whole batches only, at the positions that they have in the controller's files. Segments that the controller
deletes after a snapshot stay: they are evidence. Where the controller truncates its log, the copy is truncated too.
"""

from __future__ import annotations

import os
from pathlib import Path

from ebbtide.logs.segments import segment_files
from ebbtide.record.files import write_atomically


class Mirror:
    """Files of the same names in `folder`, which is made at the first write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, position: int, data: memoryview) -> None:
        """Write a batch at its position in the original."""
        self._folder.mkdir(parents=True, exist_ok=True)
        target = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            while data:
                written = os.pwrite(target, data, position)
                data, position = data[written:], position + written
        finally:
            os.close(target)

    def copy(self, path: Path) -> None:
        """Copy a finished file, once."""
        target = self._folder / path.name
        if not target.exists():
            write_atomically(target, path.read_bytes())

    def truncate(self, segment: int, position: int) -> None:
        """Cut the log off at `position` of the segment with base offset `segment`."""
        for base, path in segment_files(self._folder).items():
            if base > segment:
                path.unlink()
            elif base == segment:
                os.truncate(path, position)
