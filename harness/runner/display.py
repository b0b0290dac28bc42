"""What a person sees while a run goes on: a live panel on a terminal, plain lines otherwise."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ebbtide.kraft.image import describe
from ebbtide.record.rows import PartitionState


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """One glance at a run: `nodes` is node name to state (`running`, `down`, `paused`, ... and its registration)."""

    title: str
    phase: str
    nodes: Mapping[str, str]
    partitions: tuple[PartitionState, ...]
    high_watermarks: Mapping[str, int | None]
    sends: Mapping[str, int]


class Display(Protocol):
    """Where the runner tells what happens. One that inherits has nothing to close, unless it says how."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def note(self, text: str) -> None:
        """Something that happened, kept on the screen."""

    def state(self, state: RunState) -> None:
        """The newest glance; called often, shown as often as the display likes."""


class PlainDisplay(Display):
    """One line an event, with the seconds since the start, for logs and pipes; `who` tells runs in one log apart."""

    def __init__(self, console: Console, who: str = "") -> None:
        self._console = console
        self._who = who
        self._started = time.monotonic()

    def note(self, text: str) -> None:
        """Print a line."""
        took_s = time.monotonic() - self._started
        self._console.print(f"{took_s:7.1f}s  {self._who}{text}", highlight=False, markup=False, soft_wrap=True)

    def state(self, state: RunState) -> None:
        """Glances are for terminals; changes arrive as notes."""


class LiveDisplay(PlainDisplay):
    """A panel that is redrawn in place; notes scroll above it."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._live = Live(console=console, refresh_per_second=8, transient=True)
        self._spinner = Spinner("dots")

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def state(self, state: RunState) -> None:
        """Redraw."""
        self._spinner.update(text=Text(f"{state.title}: {state.phase}", style="bold"))
        self._live.update(Group(self._spinner, _nodes(state), _partitions(state)))


def display_for(console: Console) -> Display:
    """A live panel where it can be drawn, else plain lines."""
    return LiveDisplay(console) if console.is_terminal and not console.is_dumb_terminal else PlainDisplay(console)


def _nodes(state: RunState) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for name, node in state.nodes.items():
        style = "green" if node.startswith("running") else "dim" if node.startswith("not up") else "red"
        table.add_row(Text(f"  {name}"), Text(node, style=style))
    sends = "  ".join(f"{name} {count}" for name, count in state.sends.items())
    table.add_row(Text("  producers"), Text(sends))
    return table


def _partitions(state: RunState) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for row in state.partitions[:8]:
        name = f"{row.topic}-{row.partition}"
        style = "red" if row.leader < 0 else "yellow" if len(row.isr) < len(row.replicas) else "green"
        table.add_row(Text(f"  {describe(row)}", style=style), Text(f"HW {state.high_watermarks.get(name, '?')}"))
    return table
