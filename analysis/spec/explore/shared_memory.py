"""What the processes of a search share: the hashes of all states, and the states that wait.

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

_COPIED = 1 << 16
"""Slots of a table that are moved at once to a larger one."""


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


class Hashes:
    """A table of hashes with open addressing, of which process `at` of `jobs` fills a part.

    Each process reads all of it. The low bits of a hash name the process that adds it. They also choose the slot, and
    the next slots to try are a stride apart. So no two processes write to one slot. 0 marks a free slot,
    and a hash of 0 is kept as 1.
    """

    def __init__(self, files: tuple[SharedFile, SharedFile], at: int, jobs: int) -> None:
        self._files = files
        self._stride = 1 << (jobs - 1).bit_length()
        self._mine = frozenset(range(at, self._stride, jobs))
        self._memory: mmap.mmap | None = None
        self._slots = memoryview(b"").cast("q")

    def resize(self, slots: int) -> None:
        """Give the table `slots` slots; it then has only the hashes that this process added."""
        if slots == len(self._slots):
            return
        old, old_memory = self._slots, self._memory
        self._memory = self._files[0].map(slots * NUMBER)
        self._slots = memoryview(self._memory).cast("q")
        self._files = (self._files[1], self._files[0])
        for start in range(0, len(old), _COPIED):
            self.add(filter(None, old[start : start + _COPIED]))
        old.release()
        if old_memory is not None:
            old_memory.close()

    def add(self, marks: Iterable[int]) -> None:
        """Add those of `marks` that belong to this process."""
        slots, stride, mine = self._slots, self._stride, self._mine
        mask, low = len(slots) - 1, stride - 1
        for mark in marks:
            kept = mark or 1
            if kept & low in mine:
                slot = kept & mask
                while (known := slots[slot]) and known != kept:
                    slot = slot + stride & mask
                slots[slot] = kept

    def known_of(self, marks: Iterable[int]) -> list[int]:
        """Return those of `marks` that any process added."""
        slots, stride = self._slots, self._stride
        mask = len(slots) - 1
        found: list[int] = []
        for mark in marks if slots else ():
            kept = mark or 1
            slot = kept & mask
            while known := slots[slot]:
                if known == kept:
                    found.append(mark)
                    break
                slot = slot + stride & mask
        return found


def numbers_in(content: bytes, code: str = "Q") -> array[int]:
    """Return the numbers that `content` holds."""
    numbers = array(code)
    numbers.frombytes(content)
    return numbers
