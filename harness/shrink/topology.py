"""Smaller clusters and workloads for the same schedule: each reduction yields a scenario, or nothing if there is none.

Built over the plain form of steps, so that a key which names a partition or a broker is rewritten wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from harness.scenario.model import ClusterSpec, ProducerSpec, Scenario, StepSpec, TopicSpec
from harness.scenario.write import given

_BROKER = re.compile(r"\bbroker\((\d+)\)")
_RECORDS = (20, 100, 500)
"""So many records a producer are tried, the fewest first."""


class Reduction(NamedTuple):
    """`what` is left out, in words."""

    what: str
    apply: Callable[[Scenario], Scenario | None]


def without_consumers(scenario: Scenario) -> Scenario | None:
    """No tailing consumers; the final read stays."""
    return msgspec.structs.replace(scenario, consumers=()) if scenario.consumers else None


def one_controller(scenario: Scenario) -> Scenario | None:
    """A quorum of one."""
    if scenario.cluster.controllers == 1:
        return None
    return _with_cluster(scenario, controllers=1)


def without_extras(scenario: Scenario) -> Scenario | None:
    """No properties of the cluster, no topic configs and no producer settings besides those that shape the run."""
    cluster = ClusterSpec(
        controllers=scenario.cluster.controllers,
        brokers=scenario.cluster.brokers,
        features=scenario.cluster.features,
        session_timeout_s=scenario.cluster.session_timeout_s,
        replica_lag_max_s=scenario.cluster.replica_lag_max_s,
    )
    topics = {name: msgspec.structs.replace(topic, config={}) for name, topic in scenario.topics.items()}
    producers = tuple(
        ProducerSpec(id=one.id, topic=one.topic, acks=one.acks, count=one.count, rate_per_s=one.rate_per_s)
        for one in scenario.producers
    )
    return _if_other(msgspec.structs.replace(scenario, cluster=cluster, topics=topics, producers=producers), scenario)


def without_producer(id: int) -> Callable[[Scenario], Scenario | None]:
    """Without one of several producers."""

    def apply(scenario: Scenario) -> Scenario | None:
        left = tuple(one for one in scenario.producers if one.id != id)
        return msgspec.structs.replace(scenario, producers=left) if left and left != scenario.producers else None

    return apply


def only_partition(partition: str) -> Callable[[Scenario], Scenario | None]:
    """One topic with one partition, which is `partition` by the number 0."""
    topic, _, number = partition.rpartition("-")

    def apply(scenario: Scenario) -> Scenario | None:
        spec = scenario.topics.get(topic)
        if spec is None or (len(scenario.topics) == 1 and spec.partitions == 1):
            return None
        kept = spec.assignment[int(number) : int(number) + 1]
        small = msgspec.structs.replace(spec, partitions=1, assignment=kept)
        others = {f"{name}-{at}" for name, one in scenario.topics.items() for at in range(one.partitions)} - {partition}
        if any(_speaks_of(step, others) for step in scenario.steps):
            return None
        return msgspec.structs.replace(
            scenario,
            topics={topic: small},
            producers=tuple(one for one in scenario.producers if one.topic == topic),
            consumers=tuple(
                msgspec.structs.replace(one, topics=(topic,)) for one in scenario.consumers if topic in one.topics
            ),
            steps=_rewritten(scenario.steps, lambda text: re.sub(rf"\b{re.escape(partition)}\b", f"{topic}-0", text)),
        )

    return apply


def fewer_replicas(scenario: Scenario) -> Scenario | None:
    """One replica a partition less, the last in its list, as long as min.insync.replicas can be had."""
    if any(topic.replication_factor <= max(2, topic.min_isr) for topic in scenario.topics.values()):
        return None
    return msgspec.structs.replace(
        scenario,
        topics={
            name: msgspec.structs.replace(
                topic,
                replication_factor=topic.replication_factor - 1,
                assignment=tuple(replicas[:-1] for replicas in topic.assignment),
            )
            for name, topic in scenario.topics.items()
        },
    )


def without_spare_brokers(scenario: Scenario) -> Scenario | None:
    """Only brokers that hold a replica or that a step names, numbered anew from 1."""
    if any(not topic.assignment for topic in scenario.topics.values()):
        return None
    named = {int(id) for step in scenario.steps for id in _BROKER.findall(str(given(step)))}
    held = {broker for topic in scenario.topics.values() for replicas in topic.assignment for broker in replicas}
    kept = sorted(named | held)
    if len(kept) == scenario.cluster.brokers:
        return None
    numbers = {broker: number for number, broker in enumerate(kept, 1)}
    return msgspec.structs.replace(
        _with_cluster(scenario, brokers=len(kept)),
        topics={name: _renumbered(topic, numbers) for name, topic in scenario.topics.items()},
        steps=_rewritten(
            scenario.steps, lambda text: _BROKER.sub(lambda match: f"broker({numbers[int(match[1])]})", text)
        ),
    )


def fewer_records(count: int) -> Callable[[Scenario], Scenario | None]:
    """At most `count` records a producer, and thresholds of records in proportion."""

    def apply(scenario: Scenario) -> Scenario | None:
        most = max((one.count or 0 for one in scenario.producers), default=0)
        factor = count / most if most > count else 1.0

        def scaled(number: int) -> int:
            return max(1, round(number * factor))

        if factor == 1.0:
            return None
        producers = tuple(
            msgspec.structs.replace(one, count=scaled(one.count)) if one.count is not None else one
            for one in scenario.producers
        )
        return msgspec.structs.replace(
            scenario, producers=producers, steps=tuple(_scaled(step, scaled) for step in scenario.steps)
        )

    return apply


def reductions(scenario: Scenario, blamed: str | None) -> list[Reduction]:
    """Everything that can be tried on a scenario, what saves the most first; `blamed`: the partition that lost."""
    found = [Reduction("consumers", without_consumers)]
    if blamed is not None:
        found.append(Reduction(f"all partitions but {blamed}", only_partition(blamed)))
    found += [Reduction(f"producer {one.id}", without_producer(one.id)) for one in scenario.producers]
    found += [
        Reduction("two of three controllers", one_controller),
        Reduction("brokers without a replica", without_spare_brokers),
        Reduction("one replica of three", _fewer_brokers),
        Reduction("extra settings", without_extras),
        *(Reduction(f"all but {count} records a producer", fewer_records(count)) for count in _RECORDS),
    ]
    return found


def _fewer_brokers(scenario: Scenario) -> Scenario | None:
    smaller = fewer_replicas(scenario)
    return None if smaller is None else without_spare_brokers(smaller) or smaller


def _with_cluster(scenario: Scenario, **changes: int) -> Scenario:
    return msgspec.structs.replace(scenario, cluster=msgspec.structs.replace(scenario.cluster, **changes))


def _renumbered(topic: TopicSpec, numbers: Mapping[int, int]) -> TopicSpec:
    replicas = tuple(tuple(numbers[broker] for broker in one) for one in topic.assignment)
    return msgspec.structs.replace(topic, assignment=replicas)


def _scaled(step: StepSpec, scaled: Callable[[int], int]) -> StepSpec:
    trigger = step.trigger
    if trigger is None:
        return step
    if trigger.acked is not None:
        trigger = msgspec.structs.replace(trigger, acked=scaled(trigger.acked))
    if trigger.hw_at_least is not None:
        low = msgspec.structs.replace(trigger.hw_at_least, offset=scaled(trigger.hw_at_least.offset))
        trigger = msgspec.structs.replace(trigger, hw_at_least=low)
    return msgspec.structs.replace(step, trigger=trigger)


def _speaks_of(step: StepSpec, partitions: set[str]) -> bool:
    text = str(given(step))
    return any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) for name in partitions)


def _rewritten(steps: tuple[StepSpec, ...], change: Callable[[str], str]) -> tuple[StepSpec, ...]:
    def walk(value: Any) -> Any:
        if isinstance(value, str):
            return change(value)
        if isinstance(value, dict):
            return {key: walk(one) for key, one in value.items()}
        return [walk(one) for one in value] if isinstance(value, list | tuple) else value

    return tuple(msgspec.convert(walk(msgspec.to_builtins(step)), StepSpec) for step in steps)


def _if_other(scenario: Scenario, before: Scenario) -> Scenario | None:
    return scenario if scenario != before else None
