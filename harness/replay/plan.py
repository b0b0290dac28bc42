"""From a record to the run that repeats it: the topology pinned, and per step the state to wait for."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from ebbtide.scenario.model import Scenario, StepSpec, TopicSpec
from harness.replay.awaited import BROKER, Naming, gates_of
from harness.replay.recorded import Recorded
from harness.runner.gates import Gate


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

    return msgspec.convert(walk(msgspec.to_builtins(step)), StepSpec)
