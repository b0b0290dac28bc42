"""Validates triggers: unknown names, and states that never come about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ebbtide.errors import UsageError
from ebbtide.scenario.api_keys import API_KEYS
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.references import (
    EarlierNames,
    limit,
    limit_field,
    validate_broker,
    validate_partition,
    validate_resource,
    validate_role,
)
from ebbtide.scenario.steps.admin import ReassignStep
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.triggers import (
    AckedTrigger,
    BrokerTrigger,
    ConfigTrigger,
    DirectoryTrigger,
    ElrTrigger,
    HeldTrigger,
    IsrTrigger,
    LeaderTrigger,
    OfPartitions,
    ReplicasTrigger,
    Trigger,
)
from ebbtide.scenario.validate_quorum import validate_directory
from ebbtide.scenario.words import PartitionName, Role, RoleOrNone
from ebbtide.suggestions import bracketed_suggestion


def validate_trigger(scenario: Scenario, trigger: Trigger, where: str, names: EarlierNames) -> Iterator[UsageError]:
    """Report the mistakes of a step's trigger; `names` are those of earlier steps."""
    where = f"{where}.{trigger.key}"
    if isinstance(trigger, OfPartitions):
        yield from _validate_partition_keys(trigger, where)
        for at, name in partition_names(trigger, where):
            yield from validate_partition(scenario, name, at, names)
    match trigger:
        case AckedTrigger(records=records):
            yield from _validate_acked(scenario, records, where)
        case IsrTrigger():
            yield from _validate_isr(scenario, trigger, where)
        case LeaderTrigger(broker=RoleOrNone(role=Role() as role)):
            yield from _validate_broker(scenario, names, role, f"{where}.broker")
        case ElrTrigger(broker=role) | BrokerTrigger(broker=role):
            yield from _validate_broker(scenario, names, role, f"{where}.broker")
        case ReplicasTrigger(are=roles):
            for index, role in enumerate(roles):
                yield from _validate_broker(scenario, names, role, f"{where}.are[{index}]")
        case DirectoryTrigger(broker=role, directory=directory):
            yield from _validate_broker(scenario, names, role, f"{where}.broker")
            yield from validate_directory(scenario, directory, f"{where}.directory")
        case HeldTrigger(node=role):
            yield from validate_role(scenario, role, f"{where}.node", names, clients=True)
        case ConfigTrigger(resource=resource):
            yield from validate_resource(scenario, resource, f"{where}.resource", names)


def partition_names(trigger: OfPartitions, where: str) -> Iterator[tuple[str, PartitionName]]:
    """The partitions of a trigger by their places."""
    if trigger.partition is not None:
        yield f"{where}.partition", trigger.partition
    for index, name in enumerate(trigger.partitions or ()):
        yield f"{where}.partitions[{index}]", name


def _validate_acked(scenario: Scenario, records: int, where: str) -> Iterator[UsageError]:
    """More records than the producers send."""
    yield from limit(where, records, 1)
    known = [one.count for one in scenario.producers if one.count is not None]
    if len(known) == len(scenario.producers) and sum(known) < records:
        yield UsageError("can never fire", where=where, got=str(records), allowed=f"up to {sum(known)}")


def validate_held(held: HeldTrigger, earlier: Iterable[StepSpec], where: str) -> Iterator[UsageError]:
    """A wait for requests that no earlier step holds or delays."""
    yield from validate_api(held.api, f"{where}.api")
    may_hold = any(step.kind.stops_requests and getattr(step, "api", held.api) == held.api for step in earlier)
    if held.api in API_KEYS and not may_hold:
        yield UsageError(
            "can never fire: no earlier step holds such requests",
            where=f"{where}.api",
            got=repr(held.api),
            allowed=f"after a hold-request or delay-request of {held.api}",
        )
    yield from limit_field(where, held, "at_least", 1)


def validate_api(name: str, where: str) -> Iterator[UsageError]:
    """An API that Kafka does not have."""
    if name not in API_KEYS:
        allowed = "a Kafka API, e.g. AlterPartition, Fetch, Produce" + bracketed_suggestion(name, API_KEYS)
        yield UsageError("unknown API", where=where, got=repr(name), allowed=allowed)


def _validate_broker(scenario: Scenario, names: EarlierNames, role: Role, where: str) -> Iterator[UsageError]:
    yield from validate_role(scenario, role, where, names, clients=False)
    yield from validate_broker(role, where, "can never fire: not a broker")


def _validate_partition_keys(trigger: OfPartitions, where: str) -> Iterator[UsageError]:
    if bool(trigger.partition) + bool(trigger.partitions) != 1:
        allowed = "either partition = 't-0', or partitions = ['t-0', 't-1']"
        yield UsageError("say which partition", where=f"{where}.partition", allowed=allowed)


def _validate_isr(scenario: Scenario, trigger: IsrTrigger, where: str) -> Iterator[UsageError]:
    """Report an ISR trigger without a size, with two, or with one that is too large."""
    told = [key for key in ("size", "at_least") if getattr(trigger, key) is not None]
    if len(told) != 1:
        yield UsageError("say how large the ISR is", where=where, allowed="either size or at_least")
        return
    (key,) = told
    size = getattr(trigger, key)
    yield from limit(f"{where}.{key}", size, 0 if key == "size" else 1)
    for partition in trigger.names:
        yield from _validate_isr_size(scenario, partition, size, f"{where}.{key}")


def _validate_isr_size(scenario: Scenario, partition: PartitionName, size: int, where: str) -> Iterator[UsageError]:
    """Report a size above that of the replicas; for a reassigned partition, above the number of brokers."""
    topic = scenario.topics.get(partition.at.topic)
    if topic is None:
        return
    moves = [one for one in scenario.steps if isinstance(one, ReassignStep) and one.replicas]
    is_moved = any(one.partition == partition for one in moves)
    replicas = scenario.cluster.brokers if is_moved else topic.replication_factor
    if size > replicas:
        yield UsageError(
            f"can never fire: {partition} has {replicas} replicas",
            where=where,
            got=str(size),
            allowed=f"up to {replicas}",
        )
