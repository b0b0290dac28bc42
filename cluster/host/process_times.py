"""When a process started and when it ended, by what its owner saw of it."""

from __future__ import annotations

from collections.abc import Callable

from ebbtide import run_clock
from ebbtide.record.node_times import NodeTimes, Span

LOOK_S = 0.005
"""How often (s) a wait looks whether a process has ended: its end is known as exactly as that."""


class ProcessTimes:
    """The start and the end of one process, which does not begin before `began_ns`.

    Every look at the process narrows the time at which it may have ended.
    """

    def __init__(self, began_ns: int) -> None:
        self._ran_ns = began_ns
        self._started: Span | None = None
        self._ended: Span | None = None
        self._is_killed = False

    def note_start(self) -> None:
        """Note that it was let go just now, after it had waited at its gate."""
        self._started = Span.since(self._ran_ns)

    def look(self, is_running: Callable[[], bool]) -> bool:
        """Return whether the process runs, and note when that was."""
        looked_ns = run_clock.now_ns()
        runs = is_running()
        if not runs and self._ended is None:
            self._ended = Span.since(self._ran_ns)
        # After a SIGKILL the kernel may take a while to end a process which does nothing more.
        elif runs and not self._is_killed:
            self._ran_ns = looked_ns
        return runs

    def note_kill(self) -> None:
        """Note that SIGKILL is about to be sent: from now on the process may have ended."""
        self._is_killed = True

    @property
    def times(self) -> NodeTimes:
        """Return the times as those of the node whose process it is."""
        return NodeTimes(started=self._started, ended=self._ended)
