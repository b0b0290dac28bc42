"""Gates: a replay's step waits for the state in which the recorded step fired.

A gate waits only for what waiting can bring:

- It waits for each partition and each broker separately, from the end of the step before. Each counts once it was as
  recorded, even if it has changed since: the order in which two of them change varies from run to run.
- It distinguishes brokers by what the steps did to them, and by id only if a step names the id. Which of two other
  brokers left the ISR first varies from run to run, too.
- Records and time count from the moment when the whole state has come. When that state begins to pass, the gate opens.
- A recorded state may be that of a broker that certain steps had hit. If the same steps hit no such broker here, the
  state cannot come, whatever Kafka does, and the gate does not wait for it.

If the state does not come, the run has departed from the record. That is a finding, not a failure: the step fires,
and the next gate waits again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence

import msgspec

from ebbtide.kraft.image import describe
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from harness.runner.triggers import Counters, Observation
from harness.runner.view import ClusterView

_STALLED_S = 6.0
"""After so long without an acked record the gate expects no more.

By then a client has given up a request that hung at an unreachable broker, and has sent it again.
"""

_AS_FENCED = "registered"
"""A registered broker is fenced until the controller unfences it; which of the two events is read is luck."""

Sides = tuple[frozenset[int], ...]
"""The nodes that a step acted on; a cut has a set for each side, other steps have one set."""

Mark = Callable[[int], Hashable]
"""Maps a broker id to its mark; interchangeable brokers have the same mark. -1, no broker, is its own mark."""


def sides_of(entry: StepEntry) -> Sides:
    """Return the nodes that a step acted on, by sides."""
    return (frozenset(entry.nodes),) if entry.parted is None else tuple(map(frozenset, entry.parted.nodes))


def broker_marks(acted: Mapping[int, Sides], steps: Iterable[int], alike: Collection[int]) -> Mark:
    """Return the marks of brokers: what `steps` did to them, or their ids.

    Brokers that are not in `alike` have their id as mark.
    """
    sides = [(step, at, side) for step in steps for at, side in enumerate(acted[step])]

    def mark(broker: int) -> Hashable:
        if broker not in alike:
            return broker
        return frozenset((step, at) for step, at, side in sides if broker in side)

    return mark


class RecordedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded state of one partition, `topic-partition`.

    Broker ids are those of this run; `leader` is -1 if there is none. `elr` is None if one of the two releases has
    no ELR. Then the ELR is not compared, nor is the ISR of a partition without a leader: without an ELR, the ISR
    keeps its last member.
    """

    partition: str
    leader: int
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] | None = ()
    recovering: bool = False

    def shape(self, mark: Mark) -> Hashable:
        """Return the compared part of the state, with marks for brokers."""
        return _shape(self, mark, with_elr=self.elr is not None)

    def broker_groups(self) -> Iterator[tuple[int, ...]]:
        """Yield the compared brokers: the leader, the ISR, the ELR."""
        yield () if self.leader < 0 else (self.leader,)
        yield self.isr if self.elr is not None or self.leader >= 0 else ()
        yield self.elr or ()

    def shape_of(self, row: PartitionState | None, mark: Mark) -> Hashable:
        """Return the compared part of the partition's present state; None if it is absent."""
        if row is None:
            return None
        return _shape(row, mark, with_elr=self.elr is not None)

    def describe(self) -> str:
        """Describe the state as `ebbtide.kraft.image.describe` does, without epochs."""
        leader = "none" if self.leader < 0 else str(self.leader)
        text = f"{self.partition} leader {leader} ISR {sorted(self.isr)}"
        return text + (f" ELR {sorted(self.elr)}" if self.elr else "") + (" RECOVERING" if self.recovering else "")


def _shape(state: RecordedPartition | PartitionState, mark: Mark, *, with_elr: bool) -> Hashable:
    def count_marks(brokers: Iterable[int]) -> Hashable:
        return frozenset(Counter(map(mark, brokers)).items())

    isr = count_marks(state.isr) if with_elr or state.leader >= 0 else None
    return mark(state.leader), isr, count_marks(state.elr or ()) if with_elr else None, state.recovering


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """The state that a step waits for, besides its trigger, at most `patience_s`.

    - `broker_states`: broker id to its state, as `broker_state_after` names it.
    - `acked`: how many records in all, or `acked_since` since the state came, or as many as still come.
    - `instead_of_trigger`: the trigger was a time of `instead_s` in which this state came, and had lasted `lasted_s`.
    - `acted`: the nodes that each step before acted on, by step index.
    - `alike`: the brokers that no step names by id.
    """

    partitions: tuple[RecordedPartition, ...] = ()
    broker_states: Mapping[int, str] = {}
    acked: int = 0
    acked_since: int | None = None
    instead_of_trigger: bool = False
    lasted_s: float = 0.0
    instead_s: float = 0.0
    patience_s: float = 10.0
    acted: Mapping[int, Sides] = {}
    alike: frozenset[int] = frozenset()


def broker_state_after(event: str) -> str:
    """Return the state of a broker after a registration event."""
    return "fenced" if event == _AS_FENCED else event


class _Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """The moment when the whole state had come.

    It has the records acked until then, and the shapes of the partitions.
    """

    at_s: float
    acked: int
    shapes: list[Hashable]


class GateWatch:
    """Watches one gate from the end of the step before until its step fires."""

    def __init__(self, gate: Gate, view: ClusterView, counters: Counters, before: Sequence[StepEntry] = ()) -> None:
        """`before`: the steps of this run so far."""
        self._gate = gate
        self._view = view
        self._counters = counters
        acted = {entry.index: sides_of(entry) for entry in before if entry.fired_ns is not None}
        # A step that fired in one of the two only, or whose sides one of them does not tell, tells no brokers apart.
        both = [step for step, sides in gate.acted.items() if step in acted and len(sides) == len(acted[step])]
        self._then = broker_marks(gate.acted, both, gate.alike)
        self._now = broker_marks(acted, both, gate.alike)
        # Marks depend on the steps before, so they do not change while the gate waits.
        self._marks = Counter(map(self._now, view.brokers))
        self._never = {was.partition: lacking for was in gate.partitions if (lacking := self._missing_brokers(was))}
        self._possible = [was for was in gate.partitions if was.partition not in self._never]
        self._awaited = list(self._possible)
        wanted = Counter((self._then(broker), how) for broker, how in gate.broker_states.items())
        self._broker_states = Counter({one: count for one, count in wanted.items() if count <= self._marks[one[0]]})
        self._unlike = [
            broker for broker, how in gate.broker_states.items() if (self._then(broker), how) not in self._broker_states
        ]
        self._began_s = time.monotonic()
        self._came: _Arrival | None = None
        self._acked = -1
        self._acked_s = time.monotonic()

    @property
    def has_departed(self) -> bool:
        """Whether part of the state cannot come in this run.

        `look` does not wait for that part.
        """
        return bool(self._never or self._unlike)

    def look(self) -> Observation:
        """Check the gate once.

        The text names only what has not come yet or cannot, and what was recorded.
        """
        seen = self._look()
        return Observation(fired=seen.fired, what="; ".join([*self._describe_impossible(), seen.what]))

    def _look(self) -> Observation:
        acked = self._counters.acked()
        if acked > self._acked:
            self._acked, self._acked_s = acked, time.monotonic()
        differing = self._describe_differences()
        if differing:
            return Observation(fired=False, what="; ".join(differing))
        shapes = [was.shape_of(self._row(was), self._now) for was in self._possible]
        if self._came is None:
            self._came = _Arrival(at_s=time.monotonic(), acked=acked, shapes=shapes)
        lacking = list(self._unmet_conditions(self._came, acked))
        fired = shapes != self._came.shapes or not lacking
        return Observation(fired=fired, what=", ".join([f"{acked} acked", *(() if fired else lacking)]))

    def _describe_differences(self) -> list[str]:
        """Describe the partitions and brokers that have not been as recorded.

        For each it names the state now and the recorded state.
        """
        self._awaited = [
            was for was in self._awaited if was.shape_of(self._row(was), self._now) != was.shape(self._then)
        ]
        return [*map(self._describe_difference, self._awaited), *self._differing_broker_states()]

    def _missing_brokers(self, was: RecordedPartition) -> tuple[int, ...]:
        """Return the brokers of the recorded state that have no counterpart in this run.

        This run has too few brokers with their mark.
        """
        lacked: set[int] = set()
        for brokers in was.broker_groups():
            wanted = Counter(map(self._then, brokers))
            lacked |= {broker for broker in brokers if wanted[self._then(broker)] > self._marks[self._then(broker)]}
        return tuple(sorted(lacked))

    def _describe_impossible(self) -> Iterator[str]:
        for was in self._gate.partitions:
            if lacked := self._never.get(was.partition):
                yield f"{self._describe_difference(was)}, which cannot come: {_unlike(lacked)}"
        for broker in self._unlike:
            yield f"broker {broker} {self._gate.broker_states[broker]} cannot come: {_unlike([broker])}"

    def _describe_difference(self, was: RecordedPartition) -> str:
        row = self._row(was)
        now = f"{was.partition} does not exist" if row is None else describe(row)
        return f"{now}, not {was.describe()}"

    def _differing_broker_states(self) -> list[str]:
        stand = {broker: broker_state_after(event.event) for broker, event in self._view.image.brokers.items()}
        now = Counter((self._now(broker), how) for broker, how in stand.items())
        for one, count in list(self._broker_states.items()):
            if now[one] >= count:
                del self._broker_states[one]
        return [
            f"broker {broker} {stand.get(broker, 'not registered')}, not {wanted}"
            for broker, wanted in self._gate.broker_states.items()
            if (self._then(broker), wanted) in self._broker_states
        ]

    def _unmet_conditions(self, came: _Arrival, acked: int) -> Iterable[str]:
        gate, now_s = self._gate, time.monotonic()
        if now_s - came.at_s < gate.lasted_s:
            yield f"for {now_s - came.at_s:.1f} s, not {gate.lasted_s:.1f} s"
        if self.has_departed and now_s - self._began_s < gate.instead_s:
            # Nothing says when the rest would have come, so the gate waits for the whole recorded time.
            yield f"{now_s - self._began_s:.1f} s after the step before, not {gate.instead_s:.1f} s"
        since = gate.acked_since is not None and acked - came.acked >= gate.acked_since
        if not since and acked < gate.acked and now_s - self._acked_s < _STALLED_S:
            yield f"not {gate.acked}"

    def _row(self, was: RecordedPartition) -> PartitionState | None:
        return self._view.partition(TopicPartition.parse(was.partition))


def _unlike(brokers: Sequence[int]) -> str:
    """Say why a state of these brokers cannot come."""
    there = f"broker {brokers[0]} was" if len(brokers) == 1 else f"brokers {', '.join(map(str, brokers))} were"
    return f"in the record {there} hit by steps that hit no such broker, or too few, here"


def state_entry(gate: Gate, *, reached: bool, waited_s: float, seen: str) -> dict[str, object]:
    """Return the `state` that steps.jsonl keeps of a step's gate."""
    return {
        "awaited": [
            *(was.describe() for was in gate.partitions),
            *(f"broker {broker} {wanted}" for broker, wanted in gate.broker_states.items()),
            f"{gate.acked} acked",
        ],
        "instead_of_trigger": gate.instead_of_trigger,
        "reached": reached,
        "waited_s": round(waited_s, 3),
        "seen": seen,
    }
