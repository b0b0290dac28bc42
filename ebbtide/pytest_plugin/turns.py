"""Lets the tests of parallel pytest-xdist workers have their clusters one after the other.

Faults and delays of one cluster would show in the records of another.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

LONGEST_WAIT_S = 4 * 3600.0
"""How long a test waits for the tests of other workers, in seconds."""

TURN = ".pytest-turn"
QUEUE = ".pytest-queue"
"""The lock files, in the folder of run records."""


class ClusterTurn:
    """The turn of one worker.

    A test takes it before its first cluster, and gives it back after its teardown. Without parallel
    workers there is nothing to take.
    """

    def __init__(self, config: pytest.Config, runs: Path) -> None:
        self._config = config
        self._runs = runs
        self._lock = contextlib.ExitStack()
        self._has_it = False

    def take(self) -> None:
        """Wait until no other worker has the turn. Raises `EbbtideError` if that cannot be."""
        if self._has_it or not self._has_parallel_workers():
            return
        from ebbtide.errors import UsageError
        from ebbtide.locks import await_lock

        try:
            self._runs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                "cannot make the folder of run records", where=str(self._runs), got=error.strerror
            ) from None
        purpose = "the tests of other workers to be done with their clusters"

        def lock(name: str) -> contextlib.AbstractContextManager[None]:
            return await_lock(self._runs / name, purpose=purpose, timeout_s=LONGEST_WAIT_S)

        # The worker that waits for the turn has the queue. So one that gave the turn back and wants it again comes
        # after it.
        with lock(QUEUE):
            self._lock.enter_context(lock(TURN))
        self._has_it = True

    def give_back(self) -> None:
        """Let a test of another worker have its cluster."""
        self._lock.close()
        self._has_it = False

    def _has_parallel_workers(self) -> bool:
        is_worker = hasattr(self._config, "workerinput")
        return is_worker and os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1") != "1"
