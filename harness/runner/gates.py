"""Gates: what came about in another run before a step fired there, awaited before the step fires in this one.

A replay fires each step on the recorded state, not on clock times. A gate waits only for what waiting can bring:

- Each partition and each broker is awaited for itself, from the end of the step before on. Once it was as recorded it
  counts, though it has gone on since: in which order two of them change is chance.
- Brokers are told apart by what the steps did to them, and by their ids only where a step names them so: which of two
  others left the ISR first is chance, too.
- Records and time count from the moment at which all of it has come. When it begins to pass, nothing more is awaited.
- Where the steps acted on other brokers than there, a recorded state may be that of a broker which exactly those steps
  had hit; if they hit no such broker here, the state cannot come. The steps alone tell that, whatever Kafka may yet do:
  it is not waited for.

Where it does not come about, the run has departed from the recorded one, which is a finding and no failure; the step
fires, and the next gate is asked again.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ebbtide.kraft.image import describe
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.roles import CLIENTS
from ebbtide.scenario.steps.table import CUT_KINDS
from harness.runner.triggers import Counters, Seen
from harness.runner.view import ClusterView

_STALLED_S = 6.0
"""Without an acknowledgement for so long, no more are to be expected: a request that merely hung at a broker out of
reach was given up and sent again meanwhile."""

_AS_FENCED = "registered"
"""A broker that has registered is fenced until it is told otherwise; which of the two is read is a matter of luck."""

_SIDES = re.compile(r" [|>] ")
_NODE = re.compile(r"\b(?:broker|controller)-(\d+)\b|\bclients\b")

Sides = tuple[frozenset[int], ...]
"""The nodes that a step acted on: of a cut side by side, else all in one."""

Mark = Callable[[int], Hashable]
"""What a broker is known by; alike for brokers that nothing tells apart. -1, no broker, is itself."""


def sides_of(entry: StepEntry) -> Sides:
    """Whom a step acted on."""
    if entry.step in CUT_KINDS and entry.whom is not None:
        sides = _SIDES.split(entry.whom)
        return tuple(frozenset(int(node or CLIENTS) for node in _NODE.findall(side)) for side in sides)
    return (frozenset(entry.nodes),)


def marks(acted: Mapping[int, Sides], steps: Iterable[int], alike: Collection[int]) -> Mark:
    """Knows brokers by what `steps` did to them; those that are not `alike` by their ids."""
    sides = [(step, at, side) for step in steps for at, side in enumerate(acted[step])]

    def mark(broker: int) -> Hashable:
        if broker not in alike:
            return broker
        return frozenset((step, at) for step, at, side in sides if broker in side)

    return mark


class PartitionWas(msgspec.Struct, frozen=True, kw_only=True):
    """One partition, `topic-partition`, by this run's broker ids. `leader` -1: none.

    `elr` None: of a release that keeps another account of who may lead. Then it is not compared, nor is the ISR where
    there is no leader: without an ELR it keeps its last member.
    """

    partition: str
    leader: int
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] | None = ()
    recovering: bool = False

    def shape(self, mark: Mark) -> Hashable:
        """What of it is compared, its brokers by their marks."""
        return _shape(self, mark, with_elr=self.elr is not None)

    def places(self) -> Iterator[tuple[int, ...]]:
        """The brokers that are compared: who leads, who is in the ISR, who in the ELR."""
        yield () if self.leader < 0 else (self.leader,)
        yield self.isr if self.elr is not None or self.leader >= 0 else ()
        yield self.elr or ()

    def now(self, row: PartitionState | None, mark: Mark) -> Hashable:
        """The same of what the partition is now; None: it does not exist."""
        if row is None:
            return None
        return _shape(row, mark, with_elr=self.elr is not None)

    def told(self) -> str:
        """In the words of `harness.runner.view.describe`, epochs left out."""
        leader = "none" if self.leader < 0 else str(self.leader)
        text = f"{self.partition} leader {leader} ISR {sorted(self.isr)}"
        return text + (f" ELR {sorted(self.elr)}" if self.elr else "") + (" RECOVERING" if self.recovering else "")


def _shape(state: PartitionWas | PartitionState, mark: Mark, *, with_elr: bool) -> Hashable:
    def counted(brokers: Iterable[int]) -> Hashable:
        return frozenset(Counter(map(mark, brokers)).items())

    isr = counted(state.isr) if with_elr or state.leader >= 0 else None
    return mark(state.leader), isr, counted(state.elr or ()) if with_elr else None, state.recovering


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """What a step waits for besides its trigger, for at most `patience_s`.

    `standings`: broker id to how it stood, as `standing` names it. `acked`: so many in all, or `acked_since` since the
    state came, or as many as still come. `instead_of_trigger`: the trigger was a time, in which just this state came
    about; `stood_s` is how long it had stood then, and `instead_s` the time. `acted`: what the steps before it did, by
    their indexes. `alike`: brokers that no step names by id.
    """

    partitions: tuple[PartitionWas, ...] = ()
    standings: Mapping[int, str] = {}
    acked: int = 0
    acked_since: int | None = None
    instead_of_trigger: bool = False
    stood_s: float = 0.0
    instead_s: float = 0.0
    patience_s: float = 10.0
    acted: Mapping[int, Sides] = {}
    alike: frozenset[int] = frozenset()


def standing(event: str) -> str:
    """How a broker stands after a registration event."""
    return "fenced" if event == _AS_FENCED else event


class _Came(msgspec.Struct, frozen=True, kw_only=True):
    """The moment at which all had come: the records acked until then, and each awaited partition as it was."""

    at_s: float
    acked: int
    shapes: list[Hashable]


class GateWatch:
    """One gate, from the end of the step before until its step fires."""

    def __init__(self, gate: Gate, view: ClusterView, counters: Counters, before: Sequence[StepEntry] = ()) -> None:
        """`before`: the steps of this run so far."""
        self._gate = gate
        self._view = view
        self._counters = counters
        acted = {entry.index: sides_of(entry) for entry in before if entry.fired_ns is not None}
        # A step that fired in one of the two only, or whose sides one of them does not tell, tells no brokers apart.
        both = [step for step, sides in gate.acted.items() if step in acted and len(sides) == len(acted[step])]
        self._then = marks(gate.acted, both, gate.alike)
        self._now = marks(acted, both, gate.alike)
        # A mark comes of the steps before: no broker gets another one while the gate waits.
        self._marks = Counter(map(self._now, view.brokers))
        self._never = {was.partition: lacking for was in gate.partitions if (lacking := self._lacked(was))}
        self._hoped = [was for was in gate.partitions if was.partition not in self._never]
        self._awaited = list(self._hoped)
        wanted = Counter((self._then(broker), how) for broker, how in gate.standings.items())
        self._standings = Counter({one: count for one, count in wanted.items() if count <= self._marks[one[0]]})
        self._unlike = [
            broker for broker, how in gate.standings.items() if (self._then(broker), how) not in self._standings
        ]
        self._began_s = time.monotonic()
        self._came: _Came | None = None
        self._acked = -1
        self._acked_s = time.monotonic()

    @property
    def departed(self) -> bool:
        """Whether some of it cannot come in this run; `look` does not wait for that."""
        return bool(self._never or self._unlike)

    def look(self) -> Seen:
        """Ask once; what was seen names only what has not come yet, or cannot, and what was awaited instead."""
        seen = self._look()
        return Seen(fired=seen.fired, what="; ".join([*self._told_never(), seen.what]))

    def _look(self) -> Seen:
        acked = self._counters.acked()
        if acked > self._acked:
            self._acked, self._acked_s = acked, time.monotonic()
        differing = self._differing()
        if differing:
            return Seen(fired=False, what="; ".join(differing))
        shapes = [was.now(self._row(was), self._now) for was in self._hoped]
        if self._came is None:
            self._came = _Came(at_s=time.monotonic(), acked=acked, shapes=shapes)
        lacking = list(self._lacking(self._came, acked))
        fired = shapes != self._came.shapes or not lacking
        return Seen(fired=fired, what=", ".join([f"{acked} acked", *(() if fired else lacking)]))

    def _differing(self) -> list[str]:
        """The partitions and brokers that have not been as they were: as they are now, and were."""
        self._awaited = [was for was in self._awaited if was.now(self._row(was), self._now) != was.shape(self._then)]
        return [*map(self._told, self._awaited), *self._differing_standings()]

    def _lacked(self, was: PartitionWas) -> tuple[int, ...]:
        """The brokers of a state for which this run has too few by their marks."""
        lacked: set[int] = set()
        for brokers in was.places():
            wanted = Counter(map(self._then, brokers))
            lacked |= {broker for broker in brokers if wanted[self._then(broker)] > self._marks[self._then(broker)]}
        return tuple(sorted(lacked))

    def _told_never(self) -> Iterator[str]:
        for was in self._gate.partitions:
            if lacked := self._never.get(was.partition):
                yield f"{self._told(was)}, which cannot come: {_unlike(lacked)}"
        for broker in self._unlike:
            yield f"broker {broker} {self._gate.standings[broker]} cannot come: {_unlike([broker])}"

    def _told(self, was: PartitionWas) -> str:
        row = self._row(was)
        now = f"{was.partition} does not exist" if row is None else describe(row)
        return f"{now}, not {was.told()}"

    def _differing_standings(self) -> list[str]:
        stand = {broker: standing(event.event) for broker, event in self._view.image.brokers.items()}
        now = Counter((self._now(broker), how) for broker, how in stand.items())
        for one, count in list(self._standings.items()):
            if now[one] >= count:
                del self._standings[one]
        return [
            f"broker {broker} {stand.get(broker, 'not registered')}, not {wanted}"
            for broker, wanted in self._gate.standings.items()
            if (self._then(broker), wanted) in self._standings
        ]

    def _lacking(self, came: _Came, acked: int) -> Iterable[str]:
        gate, now_s = self._gate, time.monotonic()
        if now_s - came.at_s < gate.stood_s:
            yield f"for {now_s - came.at_s:.1f} s, not {gate.stood_s:.1f} s"
        if self.departed and now_s - self._began_s < gate.instead_s:
            # Nothing tells when the rest would have come: the time that it stands in for is waited out.
            yield f"{now_s - self._began_s:.1f} s after the step before, not {gate.instead_s:.1f} s"
        since = gate.acked_since is not None and acked - came.acked >= gate.acked_since
        if not since and acked < gate.acked and now_s - self._acked_s < _STALLED_S:
            yield f"not {gate.acked}"

    def _row(self, was: PartitionWas) -> PartitionState | None:
        return self._view.partition(was.partition)


def _unlike(brokers: Sequence[int]) -> str:
    """Why a state of these brokers cannot come."""
    there = f"broker {brokers[0]} was" if len(brokers) == 1 else f"brokers {', '.join(map(str, brokers))} were"
    return f"in the record {there} hit by steps that hit no such broker, or too few, here"


def state_entry(gate: Gate, *, reached: bool, waited_s: float, seen: str) -> dict[str, Any]:
    """What steps.jsonl says of a gate: the `state` of its step."""
    return {
        "awaited": [
            *(was.told() for was in gate.partitions),
            *(f"broker {broker} {wanted}" for broker, wanted in gate.standings.items()),
            f"{gate.acked} acked",
        ],
        "instead_of_trigger": gate.instead_of_trigger,
        "reached": reached,
        "waited_s": round(waited_s, 3),
        "seen": seen,
    }
