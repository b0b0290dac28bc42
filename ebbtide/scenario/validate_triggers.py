"""Validates triggers: unknown names, and states that never come about."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ebbtide.errors import UsageError
from ebbtide.scenario.api_keys import API_KEYS
from ebbtide.scenario.parts import Parts, StepPart, as_far_as_read, has_value
from ebbtide.scenario.references import limit, validate_partition, validate_resource, validate_role
from ebbtide.scenario.roles import Role
from ebbtide.scenario.steps.admin import ReassignStep
from ebbtide.scenario.steps.wire import RuleStep
from ebbtide.scenario.triggers import (
    AckedTrigger,
    BrokerTrigger,
    ConfigTrigger,
    ElrTrigger,
    HeldTrigger,
    IsrTrigger,
    LeaderTrigger,
    OfPartitions,
    ReplicasTrigger,
    Trigger,
)
from ebbtide.scenario.validate_faults import validate_broker
from ebbtide.scenario.words import PartitionName
from ebbtide.suggestions import bracketed_suggestion


def validate_trigger(parts: Parts, trigger: Trigger, where: str, names: Collection[str]) -> Iterator[UsageError]:
    """Report the mistakes of a step's trigger; `names` are those of earlier steps."""
    where = f"{where}.{trigger.key}"
    if isinstance(trigger, OfPartitions):
        yield from as_far_as_read(_validate_partition_keys(trigger, where))
        yield from as_far_as_read(_validate_partitions(parts, trigger, where))
    yield from as_far_as_read(_own_rules(parts, trigger, where, names))


def _own_rules(parts: Parts, trigger: Trigger, where: str, names: Collection[str]) -> Iterator[UsageError]:
    """Check the rules of single kinds."""
    match trigger:
        case AckedTrigger(records=records):
            yield from _validate_acked(parts, records, where)
        case IsrTrigger():
            yield from _validate_isr(parts, trigger, where)
        case LeaderTrigger(broker=broker):
            if broker.role is not None:
                yield from _validate_broker(parts, names, broker.role, f"{where}.broker")
        case ElrTrigger(broker=role) | BrokerTrigger(broker=role):
            yield from _validate_broker(parts, names, role, f"{where}.broker")
        case HeldTrigger(node=role):
            yield from validate_role(parts, role, f"{where}.node", names, clients=True)
        case ReplicasTrigger(are=roles):
            for at, role in enumerate(roles):
                yield from _validate_broker(parts, names, role, f"{where}.are[{at}]")
        case ConfigTrigger(resource=resource):
            yield from validate_resource(parts, resource, f"{where}.resource", names)


def validate_held(held: HeldTrigger, earlier: Iterable[StepPart], where: str) -> Iterator[UsageError]:
    """A wait for requests that no earlier step holds or delays."""
    yield from validate_api(held.api, f"{where}.api")
    if held.at_least < 1:
        yield UsageError("out of range", where=f"{where}.at_least", got=str(held.at_least), allowed="1 or more")
    if held.api in API_KEYS and not any(_may_hold(step, held.api) for step in earlier):
        yield UsageError(
            "can never fire: no earlier step holds such requests",
            where=f"{where}.api",
            got=repr(held.api),
            allowed=f"after a hold-request or delay-request of {held.api}",
        )


def validate_api(name: str, where: str) -> Iterator[UsageError]:
    """An API that Kafka does not have."""
    if name not in API_KEYS:
        allowed = "a Kafka API, e.g. AlterPartition, Fetch, Produce" + bracketed_suggestion(name, API_KEYS)
        yield UsageError("unknown API", where=where, got=repr(name), allowed=allowed)


def _may_hold(part: StepPart, api: str) -> bool:
    if part.step is None or "api" in part.unread:
        return True
    return isinstance(part.step, RuleStep) and part.step.kind.stops_requests and part.step.api == api


def _validate_broker(parts: Parts, names: Collection[str], role: Role, where: str) -> Iterator[UsageError]:
    yield from validate_role(parts, role, where, names, clients=False)
    yield from validate_broker(role, where, "can never fire: not a broker")


def _validate_acked(parts: Parts, records: int, where: str) -> Iterator[UsageError]:
    """More records than the producers send."""
    yield from limit(where, records, 1)
    counts = [None if one is None else one.count for one in ((None,) if parts.producers is None else parts.producers)]
    known = [count for count in counts if count is not None]
    if len(known) == len(counts) and sum(known) < records:
        yield UsageError("can never fire", where=where, got=str(records), allowed=f"up to {sum(known)}")


def _validate_partitions(parts: Parts, trigger: OfPartitions, where: str) -> Iterator[UsageError]:
    for key in ("partition", "partitions"):
        for at, name in _names(getattr(trigger, key, None), f"{where}.{key}"):
            yield from validate_partition(parts, name, at)


def _names(value: PartitionName | tuple[PartitionName, ...] | None, where: str) -> list[tuple[str, PartitionName]]:
    if isinstance(value, tuple):
        return [(f"{where}[{at}]", name) for at, name in enumerate(value)]
    return [] if value is None else [(where, value)]


def _validate_partition_keys(trigger: OfPartitions, where: str) -> Iterator[UsageError]:
    if has_value(trigger, "partition") + has_value(trigger, "partitions") != 1:
        allowed = "either partition = 't-0', or partitions = ['t-0', 't-1']"
        yield UsageError("say which partition", where=f"{where}.partition", allowed=allowed)


def _validate_isr(parts: Parts, trigger: IsrTrigger, where: str) -> Iterator[UsageError]:
    """Report an ISR trigger without a size, with two, or with one that is too large.

    The largest size is that of the replicas; for a reassigned partition, of the brokers.
    """
    sizes = [(key, size) for key, size in (("size", trigger.size), ("at_least", trigger.at_least)) if size is not None]
    if len(sizes) != 1:
        yield UsageError("say how large the ISR is", where=where, allowed="either size or at_least")
        return
    ((key, size),) = sizes
    yield from limit(f"{where}.{key}", size, 0 if key == "size" else 1)
    for partition in trigger.names:
        topic = parts.topic(partition.at.topic)
        if topic is None:
            continue
        steps = parts.every_step()
        moved = steps is None or any(
            isinstance(step, ReassignStep) and step.partition == partition and step.replicas for step in steps
        )
        replicas = parts.brokers if moved else topic.replication_factor
        if size > replicas:
            yield UsageError(
                f"can never fire: {partition} has {replicas} replicas",
                where=f"{where}.{key}",
                got=str(size),
                allowed=f"up to {replicas}",
            )
