"""From a record to the run that repeats it: the topology pinned, and per step the state to wait for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec

from analysis.judge.timeline import PartitionState
from harness.record.steps import StepEntry
from harness.replay.recorded import Recorded
from harness.runner.gates import Gate, PartitionWas
from harness.scenario.model import Scenario, StepSpec, TopicSpec

_BROKER = re.compile(r"\bbroker\((\d+)\)")
_SLACK_S = 5.0

Naming = Mapping[int, int]
"""The node of a replay by the node of the record that it stands for; a node not named stands for itself."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to run; `naming` renames the recorded brokers."""

    scenario: Scenario
    gates: dict[int, Gate]
    naming: dict[int, int]


def plan(recorded: Recorded, *, kafka: str | None = None, seed: int | None = None) -> Plan:
    """The recorded schedule, to be run again on `kafka` (the record's own release).

    `seed` draws other ids for the brokers; None: their own. On another release the ELR is not waited for: one of
    the two may have none.
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
    return Plan(
        scenario=msgspec.structs.replace(scenario, topics=topics, steps=steps),
        gates=_gates(recorded, naming, with_elr=kafka in (None, recorded.manifest.kafka)),
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
            return _BROKER.sub(lambda match: f"broker({naming.get(int(match[1]), int(match[1]))})", value)
        if isinstance(value, dict):
            return {key: walk(one) for key, one in value.items()}
        return [walk(one) for one in value] if isinstance(value, list | tuple) else value

    return msgspec.convert(walk(msgspec.to_builtins(step)), StepSpec)


def _gates(recorded: Recorded, naming: Naming, *, with_elr: bool) -> dict[int, Gate]:
    """For each step that fired, what was true then."""
    fired = [(entry, entry.fired_ns) for entry in recorded.steps if entry.fired_ns is not None]
    acked = recorded.acked_by([at_ns for _, at_ns in fired])
    cluster = recorded.scenario.cluster
    gates: dict[int, Gate] = {}
    before: Gate | None = None
    for (entry, at_ns), count in zip(fired, acked, strict=True):
        gate = Gate(
            partitions=tuple(_was(state, naming, with_elr=with_elr) for state in recorded.partitions_at(at_ns)),
            standings={naming.get(node, node): state for node, state in recorded.brokers_at(at_ns).items()},
            acked=count,
            patience_s=cluster.session_timeout_s + cluster.replica_lag_max_s + _SLACK_S,
        )
        instead = _is_time(entry) and before is not None and _changed(before, gate)
        gates[entry.index] = msgspec.structs.replace(gate, instead_of_trigger=instead)
        before = gate
    return gates


def _is_time(entry: StepEntry) -> bool:
    return "after" in entry.trigger


def _changed(before: Gate, after: Gate) -> bool:
    """Whether something came about meanwhile that can be waited for."""
    return (before.partitions, before.standings) != (after.partitions, after.standings)


def _was(state: PartitionState, naming: Naming, *, with_elr: bool) -> PartitionWas:
    def named(brokers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(naming.get(broker, broker) for broker in brokers))

    return PartitionWas(
        partition=f"{state.topic}-{state.partition}",
        leader=naming.get(state.leader, state.leader),
        isr=named(state.isr),
        elr=named(state.elr) if with_elr else None,
        recovering=state.recovering,
    )
