"""From a record to the run that repeats it: the topology pinned, and per step the state to wait for.

A partition or broker is awaited where it changed since the step before fired, or where the step speaks of it. What
stayed as it was is left out: waiting brings nothing there. A change is one that a gate can see: brokers count by
what the steps did to them (`harness.runner.gates`).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from random import Random
from typing import Any

import msgspec

from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.model import Scenario, StepSpec, TopicSpec
from ebbtide.scenario.plain import from_plain, to_plain
from ebbtide.scenario.steps.table import CUT_KINDS, WIRE_KINDS
from harness.replay.recorded import Recorded
from harness.runner.gates import Gate, Mark, PartitionWas, Sides, marks, sides_of

BROKER = re.compile(r"\bbroker\((\d+)\)")
_SLACK_S = 5.0
_AT_ONCE_S = 1.0
"""A step that fired so soon after the state had come did not fire on what was acked in it."""

Naming = Mapping[int, int]
"""The node of a replay by the node of the record that it stands for; a node not named stands for itself."""


class _Moment(msgspec.Struct, frozen=True, kw_only=True):
    """The scenario's partitions and the brokers at one time, by this run's ids."""

    partitions: dict[str, PartitionWas]
    standings: dict[int, str]


class _Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """From the step before to the firing of a step. `came_ns`: since when all stood that the gate awaits."""

    fired_ns: int
    over_ns: int
    came_ns: int
    gate: Gate

    @property
    def stood_s(self) -> float:
        """How long the state had stood."""
        return (self.fired_ns - self.came_ns) / 1e9


def gates_of(recorded: Recorded, naming: Naming, *, with_elr: bool) -> dict[int, Gate]:
    """For each step that fired, what it waits for; `with_elr` false: on a release that may keep none."""
    stretches = {entry.index: stretch for entry, stretch in _stretches(recorded, naming, with_elr=with_elr)}
    moments_ns = [at_ns for one in stretches.values() for at_ns in (one.came_ns, one.fired_ns)]
    counts = recorded.acked_by(moments_ns)
    cluster = recorded.scenario.cluster
    slack_s = cluster.session_timeout_s + cluster.replica_lag_max_s + _SLACK_S
    gates: dict[int, Gate] = {}
    for (index, one), before, acked in zip(stretches.items(), counts[::2], counts[1::2], strict=True):
        # A trigger does its own waiting, however long that took in the record.
        instead = one.gate.instead_of_trigger
        instead_s = (one.fired_ns - one.over_ns) / 1e9 if instead else 0.0
        gates[index] = msgspec.structs.replace(
            one.gate,
            acked=acked,
            acked_since=acked - before if one.stood_s >= _AT_ONCE_S else 0,
            stood_s=one.stood_s if instead else 0.0,
            instead_s=instead_s,
            patience_s=slack_s + instead_s,
        )
    return gates


def _stretches(recorded: Recorded, naming: Naming, *, with_elr: bool) -> Iterator[tuple[StepEntry, _Stretch]]:
    steps = recorded.scenario.steps
    by_id = {int(found) for step in steps for text in strings_of(step) for found in BROKER.findall(text)}
    alike = frozenset(_named(naming, broker) for broker in recorded.manifest.topology.brokers if broker not in by_id)
    acted: dict[int, Sides] = {}
    before: StepEntry | None = None
    for entry in recorded.steps:
        if entry.fired_ns is None:
            continue
        stretch = _Reader(recorded, naming, marks(acted, acted, alike), with_elr).stretch(before, entry, entry.fired_ns)
        gate = msgspec.structs.replace(stretch.gate, acted=dict(acted), alike=alike)
        yield entry, msgspec.structs.replace(stretch, gate=gate)
        acted[entry.index] = tuple(frozenset(_named(naming, node) for node in side) for side in sides_of(entry))
        before = entry


class _Reader:
    """Reads what came about in one stretch of a record."""

    def __init__(self, recorded: Recorded, naming: Naming, mark: Mark, with_elr: bool) -> None:
        self._recorded = recorded
        self._naming = naming
        self._mark = mark
        self._with_elr = with_elr

    def stretch(self, before: StepEntry | None, entry: StepEntry, fired_ns: int) -> _Stretch:
        """Before the first step all is new. A time gives way to what came about in it, and not to what the step before
        had brought about itself by its end."""
        began_ns = (before.fired_ns if before is not None else None) or 0
        over_ns = min(_over_ns(before), fired_ns) if before is not None else 0
        now, began, over = self._at(fired_ns), self._at(began_ns), self._at(over_ns)
        spoken = self._spoken_of(entry)
        partitions, standings, since_ns = [], {}, [over_ns or self._recorded.manifest.start_ns or 0]
        came_later = False
        for name, was in now.partitions.items():
            changed = [was.shape(self._mark) != self._shape(old.partitions.get(name)) for old in (began, over)]
            if before is None or any(changed) or name in spoken:
                partitions.append(was)
            if any(changed):
                since_ns.append(self._partition_since(was, fired_ns))
            came_later |= changed[1]
        for broker, how in now.standings.items():
            changed = [how != old.standings.get(broker) for old in (began, over)]
            if before is None or any(changed) or broker in spoken:
                standings[broker] = how
            if any(changed):
                since_ns.append(self._broker_since(broker, fired_ns))
            came_later |= changed[1]
        instead = before is not None and "after" in entry.trigger and came_later
        gate = Gate(partitions=tuple(partitions), standings=standings, instead_of_trigger=instead)
        return _Stretch(fired_ns=fired_ns, over_ns=over_ns or fired_ns, came_ns=max(since_ns), gate=gate)

    def _at(self, at_ns: int) -> _Moment:
        states = [self._was(state) for state in self._recorded.partitions_at(at_ns)]
        brokers = self._recorded.brokers_at(at_ns)
        return _Moment(
            partitions={state.partition: state for state in states},
            standings={_named(self._naming, broker): how for broker, how in brokers.items()},
        )

    def _shape(self, was: PartitionWas | None) -> Hashable:
        return was.shape(self._mark) if was is not None else None

    def _partition_since(self, was: PartitionWas, at_ns: int) -> int:
        """Since when the partition had been so."""
        since_ns = at_ns
        topic, _, partition = was.partition.rpartition("-")
        for state in reversed(self._recorded.timeline.states(topic, int(partition))):
            if state.at_ns <= at_ns:
                if self._was(state).shape(self._mark) != was.shape(self._mark):
                    break
                since_ns = state.at_ns
        return since_ns

    def _broker_since(self, broker: int, at_ns: int) -> int:
        events = self._recorded.timeline.brokers
        return max(
            event.at_ns for event in events if _named(self._naming, event.broker) == broker and event.at_ns <= at_ns
        )

    def _spoken_of(self, entry: StepEntry) -> set[str | int]:
        """The partitions that the step's roles and trigger name, and the brokers on which it acted, or that it names.

        Of a cut only the latter: it has all nodes on one side or the other.
        """
        steps = self._recorded.scenario.steps
        texts = list(strings_of(steps[entry.index])) if entry.index < len(steps) else []
        named = {int(found) for text in texts for found in BROKER.findall(text)}
        acted = set() if entry.step in CUT_KINDS else set(entry.nodes)
        brokers = {_named(self._naming, node) for node in named | acted}
        return brokers | {text.partition("(")[2].rstrip(")") or text for text in texts}

    def _was(self, state: PartitionState) -> PartitionWas:
        def named(brokers: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(sorted(_named(self._naming, broker) for broker in brokers))

        return PartitionWas(
            partition=f"{state.topic}-{state.partition}",
            leader=_named(self._naming, state.leader),
            isr=named(state.isr),
            elr=named(state.elr) if self._with_elr else None,
            recovering=state.recovering,
        )


def strings_of(step: StepSpec) -> Iterator[str]:
    """Every word of a step: roles, partitions, and what its trigger asks."""

    def walk(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list | tuple):
            for one in value.values() if isinstance(value, dict) else value:
                yield from walk(one)

    return walk(to_plain(step))


def _named(naming: Naming, node: int) -> int:
    return naming.get(node, node)


def _over_ns(entry: StepEntry) -> int:
    """When the step was over: a long one is its effect's end, while a rule on the wire takes effect when it may."""
    lasting = None if entry.step in WIRE_KINDS else entry.effect_ns
    return max(lasting or 0, entry.fired_ns or 0)


class ReplayPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to run; `naming` renames the recorded brokers."""

    scenario: Scenario
    gates: dict[int, Gate]
    naming: dict[int, int]


def plan(recorded: Recorded, *, kafka: str | None = None, seed: int | None = None) -> ReplayPlan:
    """The recorded schedule, to be run again on `kafka` (the record's own release).

    `seed` draws other ids for the brokers; None: their own. On another release neither the ELR is waited for, nor the
    ISR of a partition without a leader: one of the two may have no ELR, and keep the last one in the ISR instead.
    """
    brokers = recorded.manifest.topology.brokers
    drawn = Random(seed).sample(brokers, len(brokers)) if seed is not None else list(brokers)
    naming = dict(zip(brokers, drawn, strict=True))
    scenario = recorded.scenario
    topics = {
        name: msgspec.structs.replace(topic, assignment=_assignment(recorded, name, topic, naming))
        for name, topic in scenario.topics.items()
    }
    steps = tuple(_renamed(step, naming) for step in scenario.steps)
    return ReplayPlan(
        scenario=msgspec.structs.replace(scenario, topics=topics, steps=steps),
        gates=gates_of(recorded, naming, with_elr=kafka in (None, recorded.manifest.kafka)),
        naming=naming,
    )


def _assignment(recorded: Recorded, name: str, topic: TopicSpec, naming: Naming) -> tuple[tuple[int, ...], ...]:
    """The replicas as they were when the topic was made, the preferred leader first."""
    first = [recorded.timeline.states(name, partition)[:1] for partition in range(topic.partitions)]
    replicas = tuple(states[0].replicas for states in first if states)
    if len(replicas) != topic.partitions:
        replicas = topic.assignment
    return tuple(tuple(naming[broker] for broker in one) for one in replicas)


def _renamed(step: StepSpec, naming: Naming) -> StepSpec:
    """Brokers named by id, wherever the step names them."""

    def walk(value: Any) -> Any:
        if isinstance(value, str):
            return BROKER.sub(lambda match: f"broker({naming.get(int(match[1]), int(match[1]))})", value)
        if isinstance(value, dict):
            return {key: walk(one) for key, one in value.items()}
        return [walk(one) for one in value] if isinstance(value, list | tuple) else value

    return from_plain(walk(to_plain(step)), StepSpec)
