"""Lets only so many clusters run at once, while a run more prepares itself."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ebbtide.ownership import open_private
from ebbtide.waiting import wait_until

WAIT_FOR_ROOM = "wait for room"
"""The phase of a run in `timings_s` in which it is ready, and waits until another cluster has ended."""


class ClusterRoom(msgspec.Struct, frozen=True, kw_only=True):
    """Room for some `clusters` at once, among the runs of several processes.

    `folder` has a lock file for each cluster: the room of a run whose process was killed is free. `timeout_s`: how long
    a run may wait for room.
    """

    folder: Path
    clusters: int
    timeout_s: float

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Take the room of one cluster for the block, after waiting for it. Raises `WaitExpired`."""
        with contextlib.ExitStack() as held:
            wait_until(
                lambda: any(self._take(number, held) for number in range(self.clusters)),
                awaited="room for a cluster",
                timeout_s=self.timeout_s,
                last_seen=lambda: f"{self.clusters} other clusters run",
                poll_s=0.05,
            )
            yield

    def _take(self, number: int, held: contextlib.ExitStack) -> bool:
        lock = open_private(self.folder / f"cluster-{number}", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            if isinstance(error, BlockingIOError):
                return False
            raise
        held.callback(os.close, lock)
        return True
