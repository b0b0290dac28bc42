"""Reduces cluster and workload of a scenario.

Each reduction returns a smaller scenario, or None.

Reductions rewrite the plain form of steps, so that they find every key that names a partition or a broker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from ebbtide.logs.segments import TopicPartition
from ebbtide.scenario.model import Acks, ClusterSpec, ProducerSpec, Scenario, TopicSpec
from ebbtide.scenario.plain_values import BROKER, rename_brokers, with_texts
from ebbtide.scenario.steps.step import StepSpec, WaitStep
from ebbtide.scenario.triggers import AckedTrigger, OffsetTrigger
from ebbtide.scenario.write import keys_set

_RECORDS = (20, 100, 500)
"""The numbers of records for each producer to try, the fewest first."""
_SCHEDULE_S = 30.0
"""The assumed length of a schedule, to count the records of a producer without a count."""


class Reduction(NamedTuple):
    """One way to make a scenario smaller.

    `what` is left out, `gentle`: this does not touch the partition that lost. `drops`: the index of the step that
    goes, if one does.
    """

    what: str
    apply: Callable[[Scenario], Scenario | None]
    gentle: bool = False
    drops: int | None = None


class LostPartition(NamedTuple):
    """The partition that lost records, and the acks of its producer.

    It is named `topic-partition`; the acks are None if not known.
    """

    partition: str
    acks: Acks | None = None


def without_consumers(scenario: Scenario) -> Scenario | None:
    """Remove the tailing consumers; the final read stays."""
    return msgspec.structs.replace(scenario, consumers=()) if scenario.consumers else None


def one_controller(scenario: Scenario) -> Scenario | None:
    """Reduce the quorum to one controller; steps that change a dynamic quorum need more."""
    if scenario.cluster.controllers == 1 or scenario.cluster.has_dynamic_quorum:
        return None
    return _with_cluster(scenario, controllers=1)


def without_extras(scenario: Scenario) -> Scenario | None:
    """Remove cluster properties, topic configs and producer settings without effect."""
    cluster = ClusterSpec(
        controllers=scenario.cluster.controllers,
        brokers=scenario.cluster.brokers,
        features=scenario.cluster.features,
        session_timeout_s=scenario.cluster.session_timeout_s,
        replica_lag_max_s=scenario.cluster.replica_lag_max_s,
        write_back=scenario.cluster.write_back,
        file_system=scenario.cluster.file_system,
        formed_on=scenario.cluster.formed_on,
        quorum=scenario.cluster.quorum,
        initial_voters=scenario.cluster.initial_voters,
        log_dirs=scenario.cluster.log_dirs,
    )
    topics = {name: msgspec.structs.replace(topic, config={}) for name, topic in scenario.topics.items()}
    producers = tuple(
        ProducerSpec(id=one.id, topic=one.topic, acks=one.acks, count=one.count, rate_per_s=one.rate_per_s)
        for one in scenario.producers
    )
    smaller = msgspec.structs.replace(scenario, cluster=cluster, topics=topics, producers=producers)
    return smaller if smaller != scenario else None


def without_producer(id: int) -> Callable[[Scenario], Scenario | None]:
    """Return the reduction that removes one of several producers."""

    def apply(scenario: Scenario) -> Scenario | None:
        left = tuple(one for one in scenario.producers if one.id != id)
        return msgspec.structs.replace(scenario, producers=left) if left and left != scenario.producers else None

    return apply


def only_partition(partition: str) -> Callable[[Scenario], Scenario | None]:
    """Return the reduction to one topic with one partition.

    It keeps `partition`, renumbered to 0.
    """
    topic, number = TopicPartition.parse(partition)

    def apply(scenario: Scenario) -> Scenario | None:
        spec = scenario.topics.get(topic)
        if spec is None or (len(scenario.topics) == 1 and spec.partitions == 1):
            return None
        kept = spec.assignment[number : number + 1]
        small = msgspec.structs.replace(spec, partitions=1, assignment=kept)
        others = {f"{name}-{at}" for name, one in scenario.topics.items() for at in range(one.partitions)} - {partition}
        if any(_names_any(step, others) for step in scenario.steps):
            return None
        name = re.compile(rf"\b{re.escape(partition)}\b")
        return msgspec.structs.replace(
            scenario,
            topics={topic: small},
            producers=tuple(one for one in scenario.producers if one.topic == topic),
            consumers=tuple(
                msgspec.structs.replace(one, topics=(topic,)) for one in scenario.consumers if topic in one.topics
            ),
            steps=tuple(with_texts(step, lambda text: name.sub(f"{topic}-0", text)) for step in scenario.steps),
        )

    return apply


def fewer_replicas(place: int) -> Callable[[Scenario], Scenario | None]:
    """Return the reduction that removes the replica at `place` of each partition.

    It does not apply if fewer than min.insync.replicas would be left.
    """

    def apply(scenario: Scenario) -> Scenario | None:
        least = max((max(2, topic.min_isr) for topic in scenario.topics.values()), default=2)
        if any(topic.replication_factor <= max(least, place) for topic in scenario.topics.values()):
            return None
        return msgspec.structs.replace(
            scenario,
            topics={
                name: msgspec.structs.replace(
                    topic,
                    replication_factor=topic.replication_factor - 1,
                    assignment=tuple((*replicas[:place], *replicas[place + 1 :]) for replicas in topic.assignment),
                )
                for name, topic in scenario.topics.items()
            },
        )

    return apply


def without_spare_brokers(scenario: Scenario) -> Scenario | None:
    """Remove brokers that hold no replica and that no step names.

    Renumbers the other brokers from 1.
    """
    if any(not topic.assignment for topic in scenario.topics.values()):
        return None
    named = {int(id) for step in scenario.steps for id in BROKER.findall(str(keys_set(step)))}
    held = {broker for topic in scenario.topics.values() for replicas in topic.assignment for broker in replicas}
    kept = sorted(named | held)
    if len(kept) == scenario.cluster.brokers:
        return None
    numbers = {broker: number for number, broker in enumerate(kept, 1)}
    return msgspec.structs.replace(
        _with_cluster(scenario, brokers=len(kept)),
        topics={name: _renumber(topic, numbers) for name, topic in scenario.topics.items()},
        steps=tuple(rename_brokers(step, numbers) for step in scenario.steps),
    )


def fewer_records(count: int) -> Callable[[Scenario], Scenario | None]:
    """Return the reduction to at most `count` records a producer.

    Thresholds shrink in proportion. A producer without a count gets one, at a rate at which the
    sending lasts as long as a schedule.
    """

    def apply(scenario: Scenario) -> Scenario | None:
        most = max((_records(one) for one in scenario.producers), default=0)
        if most <= count:
            return None
        factor = count / most

        def scale(number: int) -> int:
            return max(1, round(number * factor))

        def fewer(producer: ProducerSpec) -> ProducerSpec:
            if producer.count is None and producer.rate_per_s is not None:
                rate = max(0.1, round(producer.rate_per_s * factor, 1))
                return msgspec.structs.replace(producer, count=scale(_records(producer)), rate_per_s=rate)
            return msgspec.structs.replace(producer, count=None if producer.count is None else scale(producer.count))

        return msgspec.structs.replace(
            scenario,
            producers=tuple(fewer(one) for one in scenario.producers),
            steps=tuple(_scale_thresholds(step, scale) for step in scenario.steps),
        )

    return apply


def _records(producer: ProducerSpec) -> int:
    """Return about how many records the producer sends."""
    return round((producer.rate_per_s or 0.0) * _SCHEDULE_S) if producer.count is None else producer.count


def without_wait(at: int) -> Callable[[Scenario], Scenario | None]:
    """Return the reduction that removes the wait at this index.

    The next step gets its trigger.
    """

    def apply(scenario: Scenario) -> Scenario | None:
        wait, *after = scenario.steps[at:]
        if not isinstance(wait, WaitStep) or not after:
            return None
        deadline_s = max(wait.deadline_s, after[0].deadline_s)
        joined = after[0].replace(trigger=wait.trigger, deadline_s=deadline_s)
        return msgspec.structs.replace(scenario, steps=(*scenario.steps[:at], joined, *after[1:]))

    return apply


def wait_reductions(scenario: Scenario) -> list[Reduction]:
    """Return a reduction for each wait before another step.

    The last wait comes first, so that indexes stay valid.
    """
    waits = [at for at, step in enumerate(scenario.steps[:-1]) if isinstance(step, WaitStep)]
    return [Reduction(f"the wait of step {at}", without_wait(at), drops=at) for at in reversed(waits)]


def reductions(scenario: Scenario, blamed: LostPartition | None) -> list[Reduction]:
    """Return every reduction to try on a scenario, the one that saves the most first."""
    found = [Reduction("consumers", without_consumers, gentle=True)]
    if blamed is not None:
        what = f"all partitions but {blamed.partition}"
        found.append(Reduction(what, only_partition(blamed.partition), gentle=True))
    # The last producer cannot be removed, so those that may have sent the lost records come last.
    guilty = [one for one in scenario.producers if _may_have_sent(one, blamed)]
    others = [one for one in scenario.producers if one not in guilty]
    found += [Reduction(f"producer {one.id}", without_producer(one.id), gentle=True) for one in others]
    found += [Reduction(f"producer {one.id}", without_producer(one.id)) for one in reversed(guilty)]
    most = max((topic.replication_factor for topic in scenario.topics.values()), default=0)
    found += [
        Reduction("two of three controllers", one_controller),
        Reduction("brokers without a replica", without_spare_brokers, gentle=True),
        *(Reduction(f"the replica at place {at}", _fewer_brokers(at)) for at in range(most - 1, 0, -1)),
        Reduction("extra settings", without_extras),
        *(Reduction(f"all but {count} records a producer", fewer_records(count)) for count in _RECORDS),
    ]
    return found


def _may_have_sent(producer: ProducerSpec, blamed: LostPartition | None) -> bool:
    if blamed is None:
        return True
    topic = TopicPartition.parse(blamed.partition).topic
    return producer.topic == topic and blamed.acks in (None, producer.acks)


def _fewer_brokers(place: int) -> Callable[[Scenario], Scenario | None]:
    def apply(scenario: Scenario) -> Scenario | None:
        smaller = fewer_replicas(place)(scenario)
        return None if smaller is None else without_spare_brokers(smaller) or smaller

    return apply


def _with_cluster(scenario: Scenario, **changes: int) -> Scenario:
    return msgspec.structs.replace(scenario, cluster=msgspec.structs.replace(scenario.cluster, **changes))


def _renumber(topic: TopicSpec, numbers: Mapping[int, int]) -> TopicSpec:
    replicas = tuple(tuple(numbers[broker] for broker in one) for one in topic.assignment)
    return msgspec.structs.replace(topic, assignment=replicas)


def _scale_thresholds(step: StepSpec, scale: Callable[[int], int]) -> StepSpec:
    match step.trigger:
        case AckedTrigger(records=records):
            return step.replace(trigger=AckedTrigger(records=scale(records)))
        case OffsetTrigger(offset=offset):
            return step.replace(trigger=step.trigger.replace(offset=scale(offset)))
    return step


def _names_any(step: StepSpec, partitions: set[str]) -> bool:
    text = str(keys_set(step))
    return any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) for name in partitions)
