"""Validates triggers: unknown names, and states that never come about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ebbtide.errors import UsageError
from ebbtide.scenario.api_keys import API_KEYS
from ebbtide.scenario.parts import Parts, StepPart, TablePart
from ebbtide.scenario.references import (
    EarlierNames,
    limit,
    limit_field,
    validate_partition,
    validate_resource,
    validate_role,
)
from ebbtide.scenario.roles import ConfigResource, Role, RoleOrNone
from ebbtide.scenario.steps.admin import ReassignStep
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
    tag_of,
)
from ebbtide.scenario.validate_directories import validate_directory
from ebbtide.scenario.validate_faults import validate_broker
from ebbtide.scenario.words import PartitionName
from ebbtide.suggestions import bracketed_suggestion


def validate_trigger(parts: Parts, trigger: TablePart, where: str, names: EarlierNames) -> Iterator[UsageError]:
    """Report the mistakes of a step's trigger; `names` are those of earlier steps."""
    where = f"{where}.{tag_of(trigger.type)}"
    if issubclass(trigger.type, OfPartitions):
        yield from _validate_partition_keys(trigger, where)
        for at, name in partition_names(trigger, where):
            yield from validate_partition(parts, name, at, names)
    if trigger.type is IsrTrigger:
        yield from _validate_isr(parts, trigger, where)
    elif trigger.type is ReplicasTrigger:
        for index, role in enumerate(trigger.elements("are")):
            if role is not None:
                yield from _validate_broker(parts, names, role, f"{where}.are[{index}]")
    elif trigger.type in _RULES:
        yield from trigger.check(_RULES[trigger.type], parts, names, where)


def partition_names(trigger: TablePart, where: str) -> Iterator[tuple[str, PartitionName]]:
    """The partitions of a trigger as far as they were read, by their places."""
    if (one := trigger.get("partition")) is not None:
        yield f"{where}.partition", one
    for index, name in enumerate(trigger.elements("partitions") or ()):
        if name is not None:
            yield f"{where}.partitions[{index}]", name


def _acked(parts: Parts, _names: EarlierNames, where: str, *, records: int) -> Iterator[UsageError]:
    """More records than the producers send."""
    yield from limit(where, records, 1)
    producers = (None,) if parts.producers is None else parts.producers
    counts = [None if one is None else one.get("count") for one in producers]
    known = [count for count in counts if count is not None]
    if len(known) == len(counts) and sum(known) < records:
        yield UsageError("can never fire", where=where, got=str(records), allowed=f"up to {sum(known)}")


def _leader(parts: Parts, names: EarlierNames, where: str, *, broker: RoleOrNone) -> Iterator[UsageError]:
    if broker.role is not None:
        yield from _validate_broker(parts, names, broker.role, f"{where}.broker")


def _broker(parts: Parts, names: EarlierNames, where: str, *, broker: Role) -> Iterator[UsageError]:
    yield from _validate_broker(parts, names, broker, f"{where}.broker")


def _in_directory(
    parts: Parts, names: EarlierNames, where: str, *, broker: Role, directory: int
) -> Iterator[UsageError]:
    yield from _validate_broker(parts, names, broker, f"{where}.broker")
    yield from validate_directory(parts, directory, f"{where}.directory")


def _held(parts: Parts, names: EarlierNames, where: str, *, node: Role) -> Iterator[UsageError]:
    yield from validate_role(parts, node, f"{where}.node", names, clients=True)


def _config(parts: Parts, names: EarlierNames, where: str, *, resource: ConfigResource) -> Iterator[UsageError]:
    yield from validate_resource(parts, resource, f"{where}.resource", names)


_RULES: Mapping[type, Callable[..., Iterator[UsageError]]] = {
    AckedTrigger: _acked,
    LeaderTrigger: _leader,
    ElrTrigger: _broker,
    BrokerTrigger: _broker,
    DirectoryTrigger: _in_directory,
    HeldTrigger: _held,
    ConfigTrigger: _config,
}


def validate_held(held: TablePart, earlier: Iterable[StepPart], where: str) -> Iterator[UsageError]:
    """A wait for requests that no earlier step holds or delays."""
    yield from held.check(_held_api, earlier, f"{where}.api")
    yield from limit_field(where, held, "at_least", 1)


def _held_api(earlier: Iterable[StepPart], where: str, *, api: str) -> Iterator[UsageError]:
    yield from validate_api(api, where)
    if api in API_KEYS and not any(_may_hold(step, api) for step in earlier):
        yield UsageError(
            "can never fire: no earlier step holds such requests",
            where=where,
            got=repr(api),
            allowed=f"after a hold-request or delay-request of {api}",
        )


def validate_api(name: str, where: str) -> Iterator[UsageError]:
    """An API that Kafka does not have."""
    if name not in API_KEYS:
        allowed = "a Kafka API, e.g. AlterPartition, Fetch, Produce" + bracketed_suggestion(name, API_KEYS)
        yield UsageError("unknown API", where=where, got=repr(name), allowed=allowed)


def _may_hold(part: StepPart, api: str) -> bool:
    return any(kind.kind.stops_requests for kind in part.kinds) and part.may_be("api", api)


def _validate_broker(parts: Parts, names: EarlierNames, role: Role, where: str) -> Iterator[UsageError]:
    yield from validate_role(parts, role, where, names, clients=False)
    yield from validate_broker(role, where, "can never fire: not a broker")


def _validate_partition_keys(trigger: TablePart, where: str) -> Iterator[UsageError]:
    if trigger.has_value("partition") + trigger.has_value("partitions") != 1:
        allowed = "either partition = 't-0', or partitions = ['t-0', 't-1']"
        yield UsageError("say which partition", where=f"{where}.partition", allowed=allowed)


def _validate_isr(parts: Parts, trigger: TablePart, where: str) -> Iterator[UsageError]:
    """Report an ISR trigger without a size, with two, or with one that is too large."""
    told = [key for key in ("size", "at_least") if key in trigger.unread or trigger.get(key) is not None]
    if len(told) != 1:
        yield UsageError("say how large the ISR is", where=where, allowed="either size or at_least")
        return
    (key,) = told
    yield from limit_field(where, trigger, key, 0 if key == "size" else 1)
    if (size := trigger.get(key)) is not None:
        for _, partition in partition_names(trigger, where):
            yield from _validate_isr_size(parts, partition, size, f"{where}.{key}")


def _validate_isr_size(parts: Parts, partition: PartitionName, size: int, where: str) -> Iterator[UsageError]:
    """Report a size above that of the replicas; for a reassigned partition, above the number of brokers."""
    topic = parts.topic(partition.at.topic)
    if topic is None:
        return
    moved = any(
        one.may_be("partition", partition) and one.has_value("replicas") for one in parts.steps_of(ReassignStep)
    )
    replicas: int | None = parts.brokers if moved or parts.steps is None else topic.get("replication_factor")
    if replicas is not None and size > replicas:
        yield UsageError(
            f"can never fire: {partition} has {replicas} replicas",
            where=where,
            got=str(size),
            allowed=f"up to {replicas}",
        )
