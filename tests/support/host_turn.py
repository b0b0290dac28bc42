"""One test at a time has this host: to run a cluster, or to change or compare the host's state.

Workers of pytest-xdist share the host. A test marked `live`, `root` or `rootless` has the turn while
it runs. It lends the host to the others while its records are only judged, and takes it back before
it compares the host's state again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ebbtide.waiting import wait_until

RunToEnd = Callable[..., subprocess.CompletedProcess[str]]

_LONGEST_TURN_S = 1200.0


class HostTurn:
    """A turn that tests of several processes take in the order in which they ask.

    `place` is a file or folder of this checkout to lock; its parent folder is locked by the next one.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self._lock: int | None = None
        self._holders = 0

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Have the host for the block. Inside another such block it stays taken until the outer one ends."""
        self._holders += 1
        try:
            self._take()
            yield
        finally:
            self._holders -= 1
            if self._holders == 0:
                self._give()

    def lend(self) -> None:
        """Let others have the host, unless a fixture around the test has a cluster up."""
        if self._holders == 1:
            self._give()

    def take_back(self) -> None:
        """Have the host again after `lend`; does nothing outside of `held`."""
        if self._holders > 0:
            self._take()

    def _take(self) -> None:
        if self._lock is not None:
            return
        # Who waits has the queue, so that one who gives the host and wants it again at once comes after them.
        queue = _lock_once_free(self._place.parent)
        try:
            self._lock = _lock_once_free(self._place)
        finally:
            _unlock(queue)

    def _give(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            _unlock(lock)


def _lock_once_free(place: Path) -> int:
    """Wait for the lock of a file or folder; returns the open file that has it."""
    lock = os.open(place, os.O_RDONLY)

    def is_locked() -> bool:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    try:
        wait_until(is_locked, awaited="another test to be done with this host", timeout_s=_LONGEST_TURN_S, poll_s=0.1)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _unlock(lock: int) -> None:
    # A process that was forked meanwhile has the file open, too: closing it would not be enough.
    fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)


PLACE = Path(__file__).parent
"""All processes that test this checkout lock this folder."""
HOST = HostTurn(PLACE)
"""This process's."""


def by_turns(turn: HostTurn, run_to_end: RunToEnd) -> RunToEnd:
    """Return `run_to_end` such that the command it runs has the host, unless it only judges."""

    def run(words: Sequence[str], *hears: Callable[[str], None]) -> subprocess.CompletedProcess[str]:
        if "analyze" not in words:
            with turn.held():
                return run_to_end(words, *hears)
        turn.lend()
        try:
            return run_to_end(words, *hears)
        finally:
            turn.take_back()

    return run
