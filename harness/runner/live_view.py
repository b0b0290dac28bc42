"""Shows a run on a terminal while it goes on: a lane for each broker, the acked records, and the steps.

A lane has a letter for each second, so no state is told by its colour alone. The view only shows the
states that it gets; it asks nobody, and it redraws itself `REFRESH_PER_S` times a second at most.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import TracebackType
from typing import NamedTuple, Self

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from ebbtide.kraft.image import describe
from ebbtide.record.rows import PartitionState
from ebbtide.shown_console import new_view
from ebbtide.shown_text import plural
from harness.runner.display import Display, PlainDisplay, RunState

REFRESH_PER_S = 4
_HISTORY_S = 300
_NAME_WIDTH = 16
_NOW_WIDTH = 42
_SENTENCE_LINES_MAX = 3
_PARTITIONS_MAX = 8
_NEXT_STEPS_MAX = 3

_LOOKS = {
    "L": ("leader", "bold white on blue"),
    "R": ("RECOVERING", "bold black on dark_orange"),
    "I": ("ISR", "black on light_sky_blue1"),
    "E": ("ELR", "black on pale_green3"),
    "K": ("last known leader", "black on khaki1"),
    "o": ("out of ISR", "grey58"),
    "x": ("down", "bold white on grey19"),
    "p": ("paused", "white on grey42"),
    "-": ("no replica", "dim"),
    " ": ("", ""),
}
"""The letter of each state in a lane, its name, and its style."""
_BARS, _ASCII_BARS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"


class _Second(NamedTuple):
    """What a column of the lanes shows: each broker's letter, and the records acked so far."""

    letters: dict[str, str]
    acked: int


class RunHistory:
    """The first partition's roles and the acked records, second by second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started_s: float | None = None
        self._seconds: list[_Second] = []

    def add(self, state: RunState) -> None:
        """Add a state; the newest one of a second counts. Seconds without a state are left blank."""
        now_s = self._clock()
        if self._started_s is None:
            self._started_s = now_s
        at = int(now_s - self._started_s)
        partition = state.partitions[0] if state.partitions else None
        letters = {name: letter_of(state, name, partition) for name in state.brokers}
        acked = state.sends["acked"]
        seconds = self._seconds[: at + 1]
        # Nobody saw the blank seconds: what was acked meanwhile counts as acked evenly.
        last, blank = seconds[-1].acked if seconds else acked, at - len(seconds)
        seconds += [_Second({}, last + (acked - last) * (one + 1) // (blank + 1)) for one in range(blank)]
        # One assignment: the thread that draws sees either list as a whole.
        self._seconds = [*seconds[:at], _Second(letters, acked)][-_HISTORY_S:]
        self._started_s += max(0, at + 1 - _HISTORY_S)

    def lane(self, name: str, width: int) -> str:
        """Return a broker's letters of the last `width` seconds."""
        return "".join(one.letters.get(name, " ") for one in self._seconds[-width:])

    def acked_per_s(self, width: int) -> list[int]:
        """Return the records acked in each of the last `width` seconds; the present second is not over."""
        acked = [one.acked for one in self._seconds[-width - 2 : -1]]
        return [max(0, after - before) for before, after in pairwise(acked)][-width:]


def letter_of(state: RunState, name: str, partition: PartitionState | None) -> str:
    """Return the letter of a broker: its condition if it cannot serve, else its role in the partition."""
    node = state.nodes[name]
    if node.startswith(("down", "paused")):
        return "x" if node.startswith("down") else "p"
    if partition is None or node.startswith("not up"):
        return " "
    broker = state.brokers[name]
    if broker == partition.leader:
        return "R" if partition.leader_recovery_state else "L"
    members = (("I", partition.isr), ("E", partition.elr), ("K", partition.last_known_elr), ("o", partition.replicas))
    return next((letter for letter, ids in members if broker in ids), "-")


class LiveDisplay(PlainDisplay):
    """A view that is redrawn in place, with notes that scroll above it.

    Whatever unwinds the block, the cursor is visible again; the command's signals unwind it.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console)
        self._clock = clock
        self._state: RunState | None = None
        self._phase_since_s = clock()
        self._history = RunHistory(clock)
        self._is_utf8 = console.encoding.lower().startswith("utf")
        self._spinner = Spinner("dots" if self._is_utf8 else "line")
        self._live = self._new_live()

    def _new_live(self) -> Live:
        return new_view(self._console, refresh_per_second=REFRESH_PER_S, get_renderable=self._render)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Take the view off the terminal during the block."""
        self._live.stop()
        try:
            yield
        finally:
            self._live = self._new_live()
            self._live.start()

    def state(self, state: RunState) -> None:
        """Keep the state for the next redrawing."""
        if self._state is None or (self._state.title, self._state.phase) != (state.title, state.phase):
            self._phase_since_s = self._clock()
        if self._state is None or self._state.title != state.title:
            self._history = RunHistory(self._clock)
        self._state = state
        self._history.add(state)

    def _render(self) -> RenderableType:
        state = self._state
        if state is None:
            return Text("")
        took_s = int(self._clock() - self._phase_since_s)
        self._spinner.update(text=Text(f"{state.title}: {state.phase}, {took_s} s", style="bold", no_wrap=True))
        return Group(self._spinner, *self._lines(state))

    def _lines(self, state: RunState) -> Iterator[Text]:
        yield from map(_one_line, self._lanes(state))
        for line in self._sentences(state):
            yield from _folded(line, self._console.width)

    def _lane_width(self) -> int:
        return max(10, self._console.width - _NAME_WIDTH - _NOW_WIDTH)

    def _lanes(self, state: RunState) -> Iterator[Text]:
        width = self._lane_width()
        if state.partitions:
            first = state.partitions[0]
            yield Text(f"{_name('')}{f'{first.topic}-{first.partition}, a letter a second':<{width}}  now", style="dim")
        for name, node in state.nodes.items():
            lane = self._history.lane(name, width) if state.partitions else ""
            styled = [(letter, _LOOKS[letter][1]) for letter in lane]
            yield Text.assemble(_name(name), *styled, " " * (width - len(lane) + 2), *_now(state, name, node))
        yield self._acked_line(state, width)

    def _sentences(self, state: RunState) -> Iterator[Text]:
        if state.partitions:
            yield _legend([self._history.lane(name, self._lane_width()) for name in state.brokers])
        yield from _step_lines(state)
        for row in state.partitions[:_PARTITIONS_MAX]:
            high_watermark = state.high_watermarks.get(f"{row.topic}-{row.partition}")
            seen = "HW not seen yet" if high_watermark is None else f"HW {high_watermark:,}"
            style = "red" if row.leader < 0 else "yellow" if len(row.isr) < len(row.replicas) else "green"
            yield Text.assemble(_name("partition"), (describe(row), style), f"  {seen}")
        if (more := len(state.partitions) - _PARTITIONS_MAX) > 0:
            yield Text(f"{_name('')}and {plural(more, 'more partition')}")

    def _acked_line(self, state: RunState, width: int) -> Text:
        rates = self._history.acked_per_s(width)
        bars = _BARS if self._is_utf8 else _ASCII_BARS
        most = max(rates, default=0) or 1
        drawn = "".join(bars[-(-rate * (len(bars) - 1) // most)] for rate in rates)
        now = f"{rates[-1] if rates else 0:,}/s"
        counts = ", ".join(
            f"{state.sends[name]:,} {name}"
            for name in ("acked", "failed", "unknown")
            if state.sends[name] or name == "acked"
        )
        return Text.assemble(_name("acked"), (drawn, "cyan"), " " * (width - len(drawn) + 2), f"{now}; {counts}")


def display_for(console: Console) -> Display:
    """Return a live view if the console can draw it, else plain lines."""
    return LiveDisplay(console) if console.is_terminal and not console.is_dumb_terminal else PlainDisplay(console)


def _name(name: str) -> str:
    return f"  {name:<{_NAME_WIDTH - 2}}"


def _one_line(line: Text) -> Text:
    """Keep a line one line high, so that the view does not jump."""
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _folded(line: Text, width: int) -> Iterator[Text]:
    """Yield a line that is wider than the terminal as a few, folded between words below its name."""
    for _ in range(_SENTENCE_LINES_MAX - 1):
        at = line.plain.rfind(" ", _NAME_WIDTH, width + 1) if cell_len(line.plain) > width else -1
        if at < 0:
            break
        first, rest = line.divide([at])
        yield _one_line(first)
        line = Text(_name("")) + rest[1:]
    yield _one_line(line)


def _now(state: RunState, name: str, node: str) -> Iterator[tuple[str, str]]:
    """Yield the present role and condition of a node in words."""
    style = "" if node.startswith("running") else "dim" if node.startswith("not up") else "bold red"
    if name in state.brokers and state.partitions:
        row, broker = state.partitions[0], state.brokers[name]
        roles = [
            role
            for role, has in (
                ("RECOVERING" if row.leader_recovery_state else "leader", row.leader == broker),
                ("ISR", broker in row.isr and row.leader != broker),
                ("ELR", broker in row.elr),
                ("last known leader", broker in row.last_known_elr),
            )
            if has
        ]
        out = "out of ISR" if broker in row.replicas else "no replica"
        yield f"{', '.join(roles) or out}; ", ""
    yield node, style


def _legend(lanes: list[str]) -> Text:
    used = {letter for lane in lanes for letter in lane}
    shown = [(letter, name) for letter, (name, _) in _LOOKS.items() if letter in used and name]
    return Text(_name("") + "  ".join(f"{letter} {name}" for letter, name in shown), style="dim")


def _step_lines(state: RunState) -> Iterator[Text]:
    """Yield the faults in force, the step that waits and for what, and the next steps."""
    ended = [one for one in state.steps if one.status not in ("waiting", "to come")]
    for one in ended:
        if one.status == "in force":
            yield Text.assemble(_name("fault"), (one.text, "bold dark_orange"))
    if not state.steps:
        return
    last = "".join(f"; the last: {one.index} {one.text}" for one in ended[-1:])
    last += "".join(f" ({one.status})" for one in ended[-1:] if one.status not in ("done", "in force"))
    yield Text(f"{_name('steps')}{len(ended)} of {len(state.steps)} carried out{last}")
    if state.awaited is not None:
        waiting = next((one for one in state.steps if one.index == state.awaited.index), None)
        text = f"{waiting.index} {waiting.text}" if waiting is not None else f"step {state.awaited.index}"
        seen = f"; now: {state.awaited.seen}" if state.awaited.seen else ""
        yield Text.assemble(_name("waiting"), (text, "bold"), f" waits for {state.awaited.what}{seen}")
    to_come = [one for one in state.steps if one.status == "to come"]
    if to_come:
        named = ", ".join(f"{one.index} {one.text}" for one in to_come[:_NEXT_STEPS_MAX])
        more = len(to_come) - _NEXT_STEPS_MAX
        yield Text(f"{_name('to come')}{named}{f', and {more} more' if more > 0 else ''}")
