"""The process of a node, as every runtime sees it."""

from __future__ import annotations

import signal
from typing import Protocol

from ebbtide.record.node_times import NodeTimes


class NodeProcess(Protocol):
    """A started JVM of a node; `pid` is on this host."""

    pid: int

    @property
    def times(self) -> NodeTimes:
        """When it started, and when it ended if that was seen."""

    def is_running(self) -> bool:
        """Whether the process has not ended yet."""

    def exit_status(self) -> int | None:
        """Return None while it runs, then its exit code or minus the signal that ended it."""

    def send(self, number: signal.Signals) -> None:
        """Send a signal; does nothing when the process has ended."""

    def wait(self, timeout_s: float) -> int:
        """Wait until the process has ended; returns its exit status. Raises `WaitExpired`."""

    def kill(self) -> object:
        """Send SIGKILL, and wait until the process has ended and is reaped."""
