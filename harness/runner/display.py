"""Shows a run while it goes on: a live panel on a terminal, plain lines elsewhere."""

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
    """The state of a run.

    `nodes` maps a node's name to its state, such as `running` or `down`.
    """

    title: str
    phase: str
    nodes: Mapping[str, str]
    partitions: tuple[PartitionState, ...]
    high_watermarks: Mapping[str, int | None]
    sends: Mapping[str, int]


class Display(Protocol):
    """Receives what happens in a run. By default a display has nothing to close."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

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
        took_s = time.monotonic() - self._started
        self._console.print(f"{took_s:7.1f}s  {self._who}{text}", highlight=False, markup=False, soft_wrap=True)

    def state(self, state: RunState) -> None:
        """Print nothing: states are for terminals, and changes arrive as notes."""


class LiveDisplay(PlainDisplay):
    """A panel that is redrawn in place, with notes that scroll above it."""

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
        """Redraw the panel."""
        self._spinner.update(text=Text(f"{state.title}: {state.phase}", style="bold"))
        self._live.update(Group(self._spinner, _nodes(state), _partitions(state)))


def display_for(console: Console) -> Display:
    """Return a live panel if the console can draw it, else plain lines."""
    return LiveDisplay(console) if console.is_terminal and not console.is_dumb_terminal else PlainDisplay(console)


def _nodes(state: RunState) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for name, node in state.nodes.items():
        style = "green" if node.startswith("running") else "dim" if node.startswith("not up") else "red"
        table.add_row(Text(f"  {name}"), Text(node, style=style))
    sends = "  ".join(f"{name} {count:,}" for name, count in state.sends.items())
    table.add_row(Text("  producers"), Text(sends))
    return table


def _partitions(state: RunState) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for row in state.partitions[:8]:
        name = f"{row.topic}-{row.partition}"
        style = "red" if row.leader < 0 else "yellow" if len(row.isr) < len(row.replicas) else "green"
        table.add_row(Text(f"  {describe(row)}", style=style), Text(f"HW {state.high_watermarks.get(name, '?')}"))
    return table
