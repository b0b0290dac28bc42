"""What the processes of a search share: files in memory, and pipes.

The memory is files without a name, which the processes inherit. The kernel frees them with the last process.
Short messages go through pipes, so that no process waits for a lock of another one, which may be killed.
"""

from __future__ import annotations

import mmap
import os
from array import array
from collections.abc import Iterable

NUMBER = 8
"""Bytes of a number of a state, of a key and of a hash."""


class SharedFile:
    """A file in memory that every process of the search reads and writes."""

    def __init__(self, name: str) -> None:
        self._descriptor = os.memfd_create(f"ebbtide-{name}")

    def resize(self, size: int) -> None:
        """Make it `size` bytes long; 0 frees its memory."""
        os.ftruncate(self._descriptor, size)

    def read(self, size: int, at: int) -> bytes:
        """Return `size` bytes from `at` on."""
        return os.pread(self._descriptor, size, at)

    def write(self, content: memoryview, at: int) -> None:
        """Write `content` at `at`."""
        while content:
            wrote = os.pwrite(self._descriptor, content, at)
            content, at = content[wrote:], at + wrote

    def map(self, size: int) -> mmap.mmap:
        """Return the first `size` bytes as memory."""
        return mmap.mmap(self._descriptor, size)

    def close(self) -> None:
        """Close it in this process."""
        os.close(self._descriptor)


class NumberPipe:
    """A pipe of messages, each of a few numbers, that any process reads and writes without waiting.

    A message arrives as a whole, and only once. `CAPACITY` numbers fit.
    """

    CAPACITY = (1 << 16) // NUMBER

    def __init__(self) -> None:
        self._out, self._in = os.pipe()
        os.set_blocking(self._out, False)

    def put(self, numbers: Iterable[int]) -> None:
        """Add numbers."""
        os.write(self._in, array("Q", numbers))

    def take(self, count: int) -> array[int]:
        """Return up to `count` numbers; none if the pipe is empty."""
        try:
            return numbers_in(os.read(self._out, count * NUMBER))
        except BlockingIOError:
            return array("Q")

    def close(self) -> None:
        """Close it in this process."""
        os.close(self._out)
        os.close(self._in)


class SharedMemory:
    """All files of a search in `jobs` processes; the pairs take turns."""

    def __init__(self, jobs: int) -> None:
        self.levels = (SharedFile("level"), SharedFile("level"))
        self.hashes = (SharedFile("hashes"), SharedFile("hashes"))
        self.keys = SharedFile("keys")
        self.found = [SharedFile("found") for _ in range(jobs)]
        self.turns = NumberPipe()
        self.inboxes = [NumberPipe() for _ in range(jobs)]

    def close(self) -> None:
        """Close all files and pipes in this process."""
        for file in (*self.levels, *self.hashes, self.keys, *self.found):
            file.close()
        for pipe in (self.turns, *self.inboxes):
            pipe.close()


def numbers_in(content: bytes, code: str = "Q") -> array[int]:
    """Return the numbers that `content` holds."""
    numbers = array(code)
    numbers.frombytes(content)
    return numbers
