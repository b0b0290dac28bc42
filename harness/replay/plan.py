"""Plans the run that repeats a record: its topology and the gate of each step.

The topology is fixed. A gate is the state that a step waits for. A gate waits for a partition or broker that
changed since the step before fired, or that the step names. Waiting for the others would add nothing. A change
counts only if a gate can see it: brokers that the steps treated alike are interchangeable (`harness.runner.gates`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from random import Random

import msgspec

from ebbtide.logs.segments import TopicPartition
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.model import Scenario, TopicSpec
from ebbtide.scenario.plain_values import BROKER, rename_brokers, texts_of
from ebbtide.scenario.steps.table import CUT_KINDS, WIRE_KINDS
from harness.replay.recorded_run import LoadedRun
from harness.runner.gates import Gate, Mark, RecordedPartition, Sides, broker_marks, sides_of

_SLACK_S = 5.0
_AT_ONCE_S = 1.0
"""A step that fired sooner after its state came did not depend on the records acked in that state."""

Naming = Mapping[int, int]
"""Maps a node id of the record to the node id of the replay; a missing id maps to itself."""


class _Moment(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the partitions and brokers at one time, with the replay's ids."""

    partitions: dict[str, RecordedPartition]
    broker_states: dict[int, str]


class _Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """The time between two steps, and the gate of the second.

    It lasts from the end of the first (`over_ns`) to the firing of the second (`fired_ns`).
    `came_ns`: when the last part of the state that the gate waits for had come.
    """

    fired_ns: int
    over_ns: int
    came_ns: int
    gate: Gate

    @property
    def lasted_s(self) -> float:
        """How long the state had lasted when the step fired, in seconds."""
        return (self.fired_ns - self.came_ns) / 1e9


def gates_of(recorded: LoadedRun, naming: Naming, *, with_elr: bool) -> dict[int, Gate]:
    """Return the gate of each step that fired, by its index.

    `with_elr` false leaves the ELR out, for a release that may have none.
    """
    stretches = {entry.index: stretch for entry, stretch in _stretches(recorded, naming, with_elr=with_elr)}
    moments_ns = [at_ns for one in stretches.values() for at_ns in (one.came_ns, one.fired_ns)]
    counts = recorded.acked_at(moments_ns)
    cluster = recorded.scenario.cluster
    slack_s = cluster.session_timeout_s + cluster.replica_lag_max_s + _SLACK_S
    gates: dict[int, Gate] = {}
    for (index, one), before, acked in zip(stretches.items(), counts[::2], counts[1::2], strict=True):
        # A trigger waits by itself, however long that took in the record.
        instead = one.gate.instead_of_trigger
        instead_s = (one.fired_ns - one.over_ns) / 1e9 if instead else 0.0
        gates[index] = msgspec.structs.replace(
            one.gate,
            acked=acked,
            acked_since=acked - before if one.lasted_s >= _AT_ONCE_S else 0,
            lasted_s=one.lasted_s if instead else 0.0,
            instead_s=instead_s,
            patience_s=slack_s + instead_s,
        )
    return gates


def _stretches(recorded: LoadedRun, naming: Naming, *, with_elr: bool) -> Iterator[tuple[StepEntry, _Stretch]]:
    steps = recorded.scenario.steps
    by_id = {int(found) for step in steps for text in texts_of(step) for found in BROKER.findall(text)}
    alike = frozenset(_rename(naming, broker) for broker in recorded.manifest.topology.brokers if broker not in by_id)
    acted: dict[int, Sides] = {}
    before: StepEntry | None = None
    for entry in recorded.steps:
        if entry.fired_ns is None:
            continue
        stretch = _Reader(recorded, naming, broker_marks(acted, acted, alike), with_elr).stretch(
            before, entry, entry.fired_ns
        )
        gate = msgspec.structs.replace(stretch.gate, acted=dict(acted), alike=alike)
        yield entry, msgspec.structs.replace(stretch, gate=gate)
        acted[entry.index] = tuple(frozenset(_rename(naming, node) for node in side) for side in sides_of(entry))
        before = entry


class _Reader:
    """Reads what changed in one stretch of a record."""

    def __init__(self, recorded: LoadedRun, naming: Naming, mark: Mark, with_elr: bool) -> None:
        self._recorded = recorded
        self._naming = naming
        self._mark = mark
        self._with_elr = with_elr

    def stretch(self, before: StepEntry | None, entry: StepEntry, fired_ns: int) -> _Stretch:
        """Return the stretch before `entry`, with the gate for its changes.

        Before the first step everything is new. The gate replaces an `after` trigger if something changed while it
        waited; a change that the step before had caused by its own end does not count.
        """
        began_ns = (before.fired_ns if before is not None else None) or 0
        over_ns = min(_end_ns(before), fired_ns) if before is not None else 0
        now, began, over = self._at(fired_ns), self._at(began_ns), self._at(over_ns)
        named = self._names_in(entry)
        partitions, broker_states, since_ns = [], {}, [over_ns or self._recorded.manifest.start_ns or 0]
        came_later = False
        for name, was in now.partitions.items():
            changed = [was.shape(self._mark) != self._shape(old.partitions.get(name)) for old in (began, over)]
            if before is None or any(changed) or name in named:
                partitions.append(was)
            if any(changed):
                since_ns.append(self._partition_since(was, fired_ns))
            came_later |= changed[1]
        for broker, how in now.broker_states.items():
            changed = [how != old.broker_states.get(broker) for old in (began, over)]
            if before is None or any(changed) or broker in named:
                broker_states[broker] = how
            if any(changed):
                since_ns.append(self._broker_since(broker, fired_ns))
            came_later |= changed[1]
        instead = before is not None and "after" in entry.trigger and came_later
        gate = Gate(partitions=tuple(partitions), broker_states=broker_states, instead_of_trigger=instead)
        return _Stretch(fired_ns=fired_ns, over_ns=over_ns or fired_ns, came_ns=max(since_ns), gate=gate)

    def _at(self, at_ns: int) -> _Moment:
        states = [self._partition_was(state) for state in self._recorded.partitions_at(at_ns)]
        brokers = self._recorded.brokers_at(at_ns)
        return _Moment(
            partitions={state.partition: state for state in states},
            broker_states={_rename(self._naming, broker): how for broker, how in brokers.items()},
        )

    def _shape(self, was: RecordedPartition | None) -> Hashable:
        return was.shape(self._mark) if was is not None else None

    def _partition_since(self, was: RecordedPartition, at_ns: int) -> int:
        """Return the time since which the partition had this state."""
        since_ns = at_ns
        topic, partition = TopicPartition.parse(was.partition)
        for state in reversed(self._recorded.timeline.states(topic, partition)):
            if state.at_ns <= at_ns:
                if self._partition_was(state).shape(self._mark) != was.shape(self._mark):
                    break
                since_ns = state.at_ns
        return since_ns

    def _broker_since(self, broker: int, at_ns: int) -> int:
        events = self._recorded.timeline.brokers
        return max(
            event.at_ns for event in events if _rename(self._naming, event.broker) == broker and event.at_ns <= at_ns
        )

    def _names_in(self, entry: StepEntry) -> set[str | int]:
        """Return the partitions that a step names, and the brokers of the step.

        These are the brokers that it names or acted on. Brokers that a cut acted on are left out: a
        cut has every node on one of its sides.
        """
        steps = self._recorded.scenario.steps
        texts = texts_of(steps[entry.index]) if entry.index < len(steps) else []
        named = {int(found) for text in texts for found in BROKER.findall(text)}
        acted = set() if entry.step in CUT_KINDS else set(entry.nodes)
        brokers = {_rename(self._naming, node) for node in named | acted}
        return brokers | {text.partition("(")[2].rstrip(")") or text for text in texts}

    def _partition_was(self, state: PartitionState) -> RecordedPartition:
        def rename_all(brokers: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(sorted(_rename(self._naming, broker) for broker in brokers))

        return RecordedPartition(
            partition=f"{state.topic}-{state.partition}",
            leader=_rename(self._naming, state.leader),
            isr=rename_all(state.isr),
            elr=rename_all(state.elr) if self._with_elr else None,
            recovering=state.recovering,
        )


def _rename(naming: Naming, node: int) -> int:
    return naming.get(node, node)


def _end_ns(entry: StepEntry) -> int:
    """Return when the step ended: at the end of its effect.

    A wire rule ends at once, and takes effect later.
    """
    lasting = None if entry.step in WIRE_KINDS else entry.effect_ns
    return max(lasting or 0, entry.fired_ns or 0)


class ReplayPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The scenario to run, the gate of each step, and the renaming of the brokers."""

    scenario: Scenario
    gates: dict[int, Gate]
    naming: dict[int, int]


def plan(recorded: LoadedRun, *, kafka: str | None = None, seed: int | None = None) -> ReplayPlan:
    """Plan a run of the recorded schedule on `kafka`, or on the record's own release.

    `seed` draws other ids for the brokers; None keeps them. On another release no gate waits for the ELR, nor for the
    ISR of a partition without a leader: a release without ELR keeps the last replica in the ISR instead.
    """
    brokers = recorded.manifest.topology.brokers
    drawn = Random(seed).sample(brokers, len(brokers)) if seed is not None else list(brokers)
    naming = dict(zip(brokers, drawn, strict=True))
    scenario = recorded.scenario
    topics = {
        name: msgspec.structs.replace(topic, assignment=_assignment(recorded, name, topic, naming))
        for name, topic in scenario.topics.items()
    }
    steps = tuple(rename_brokers(step, naming) for step in scenario.steps)
    return ReplayPlan(
        scenario=msgspec.structs.replace(scenario, topics=topics, steps=steps),
        gates=gates_of(recorded, naming, with_elr=kafka in (None, recorded.manifest.kafka_name)),
        naming=naming,
    )


def _assignment(recorded: LoadedRun, name: str, topic: TopicSpec, naming: Naming) -> tuple[tuple[int, ...], ...]:
    """Return the replicas that each partition had at first, preferred leader first."""
    first = [recorded.timeline.states(name, partition)[:1] for partition in range(topic.partitions)]
    replicas = tuple(states[0].replicas for states in first if states)
    if len(replicas) != topic.partitions:
        replicas = topic.assignment
    return tuple(tuple(naming[broker] for broker in one) for one in replicas)
