"""Receives what happens in a run, and prints it as plain lines; a terminal gets the view of live_view.py."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self

import msgspec
from rich.console import Console

from ebbtide.folding import fold_words
from harness.runner.run_state import RunState


class NodeState(msgspec.Struct, frozen=True):
    """`state` is running, down, paused or not up; `registration` is a broker's newest one, None without any."""

    state: str
    registration: str | None = None

    def __str__(self) -> str:
        """Write both: `running, unfenced`."""
        return self.state if self.registration is None else f"{self.state}, {self.registration}"


class Display(Protocol):
    """Receives what happens in a run. By default a display has nothing to close."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Leave the terminal to others during the block."""
        yield

    def note(self, text: str) -> None:
        """Show an event, which stays on the screen."""

    def state(self, state: RunState) -> None:
        """Show the newest state; called often, and shown as often as the display likes."""


class PlainDisplay(Display):
    """Prints one line for each event, with the seconds since the start.

    `who` names the run.
    """

    def __init__(self, console: Console, who: str = "") -> None:
        self._console = console
        self._who = who
        self._started = time.monotonic()

    def note(self, text: str) -> None:
        """Print a line."""
        took = f"{time.monotonic() - self._started:7.1f}s  "
        said = f"{self._who}{text}"
        lines = fold_words(said, self._console.width - len(took), cuts=False)
        self._console.print(took + f"\n{' ' * len(took)}".join(lines), highlight=False, markup=False, soft_wrap=True)

    def state(self, state: RunState) -> None:
        """Print nothing: states are for terminals, and changes arrive as notes."""
