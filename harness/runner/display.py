"""Receives what happens in a run, and prints it as plain lines; a terminal gets the view of live_view.py."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Literal, Protocol, Self

import msgspec
from rich.console import Console

from cluster.runtime.base import NodeInfo
from ebbtide.folding import fold_words
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.table import HEALED_BY
from harness.runner.triggers import Counters
from workloads.send_account import SendCounts

SHOW_EVERY_S = 0.25
"""The shortest time between two states that a display gets; a new phase is shown at once."""

StepStatus = Literal["done", "no proof", "in force", "left out", "waiting", "to come"]


class Awaited(msgspec.Struct, frozen=True):
    """What a step waits for, and what was seen last; both in words."""

    index: int
    what: str
    seen: str = ""


class ClientCounters(Counters, Protocol):
    """What the clients count anyway."""

    def send_counts(self) -> SendCounts:
        """Return the counts of sends so far."""


class StepState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a step is. `text` is its kind with what it acts on, or will act on."""

    index: int
    text: str
    status: StepStatus


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run.

    - `nodes` maps a node's name to its state and newest registration, such as `running, unfenced`.
    - `brokers` maps the names of the brokers among them to their ids.
    - `sends` counts the records that producers sent, and how each send ended.
    - `awaited` is None while no step waits.
    """

    title: str
    phase: str
    nodes: Mapping[str, str]
    brokers: Mapping[str, int]
    partitions: tuple[PartitionState, ...]
    high_watermarks: Mapping[str, int | None]
    sends: Mapping[str, int]
    steps: tuple[StepState, ...] = ()
    awaited: Awaited | None = None


def run_state_of(
    title: str,
    phase: str,
    *,
    nodes: Collection[NodeInfo],
    node_states: Mapping[str, str],
    partitions: Sequence[PartitionState],
    counters: ClientCounters,
    entries: Sequence[StepEntry],
    awaited: Awaited | None,
) -> RunState:
    """Return the state of a run, from what was read already."""
    sent = counters.send_counts()
    return RunState(
        title=title,
        phase=phase,
        nodes=node_states,
        brokers={node.name: node.id for node in nodes if node.role == "broker"},
        partitions=tuple(partitions),
        high_watermarks={
            f"{row.topic}-{row.partition}": counters.high_watermark(row.topic, row.partition) for row in partitions
        },
        sends={"sent": sent.handed, "acked": sent.acked, "failed": sent.failed, "unknown": sent.unknown},
        steps=tuple(step_states(entries, awaited, {node.id: node.name for node in nodes})),
        awaited=awaited,
    )


def step_states(entries: Sequence[StepEntry], awaited: Awaited | None, names: Mapping[int, str]) -> list[StepState]:
    """Return how far each step is; `names` has the name of each node id."""
    return [StepState(index=entry.index, text=_text(entry, names), status=_status(entry, awaited)) for entry in entries]


def _text(entry: StepEntry, names: Mapping[int, str]) -> str:
    planned = entry.asked.target or entry.asked.name or ""
    target = entry.whom or ", ".join(names.get(node, str(node)) for node in entry.nodes) or str(planned)
    return f"{entry.step} {target}".rstrip()


def _status(entry: StepEntry, awaited: Awaited | None) -> StepStatus:
    if entry.fired_ns is None:
        if entry.why is not None:
            return "left out"
        return "waiting" if awaited is not None and awaited.index == entry.index else "to come"
    if entry.step in HEALED_BY and entry.healed_ns is None:
        return "in force"
    return "done" if entry.effect_ns is not None else "no proof"


class NodeState(msgspec.Struct, frozen=True):
    """`state` is running, down, paused or not up; `registration` is a broker's newest event, None without any."""

    state: str
    registration: str | None = None

    def __str__(self) -> str:
        """Write both in the words of Kafka: `running, unfenced`."""
        at_start = "fenced (starting)" if self.state == "running" else "fenced"
        in_words = {"registered": at_start, "shutting_down": "in controlled shutdown"}
        event = in_words.get(self.registration or "", self.registration)
        return self.state if event is None else f"{self.state}, {event}"


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
