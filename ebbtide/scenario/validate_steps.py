"""Validates steps: unknown names, numbers out of range, exclusive keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ebbtide.errors import UsageError
from ebbtide.scenario.parts import Parts, StepPart
from ebbtide.scenario.references import (
    EarlierNames,
    limit_field,
    validate_partition,
    validate_resource,
    validate_role,
    validate_topic_exists,
)
from ebbtide.scenario.roles import ConfigResource, Role
from ebbtide.scenario.steps.admin import AddPartitionsStep, CreateTopicStep, DeleteTopicStep, MoveReplicaStep
from ebbtide.scenario.steps.disk import DirectoryStep, SlowDiskStep
from ebbtide.scenario.steps.network import BetweenStep, IsolateStep
from ebbtide.scenario.steps.step import BaseStep
from ebbtide.scenario.steps.wire import HoldRequestStep
from ebbtide.scenario.validate_directories import validate_directory_step, validate_owner
from ebbtide.scenario.validate_faults import (
    validate_broker,
    validate_either,
    validate_groups,
    validate_isolation,
    validate_sides,
    validate_slow_delay,
    validate_slowness,
)
from ebbtide.scenario.validate_features import validate_feature_name
from ebbtide.scenario.validate_requests import (
    validate_added_partitions,
    validate_error_name,
    validate_late,
    validate_replicas,
)
from ebbtide.scenario.validate_topics import validate_created_topic, validate_deleted_topic
from ebbtide.scenario.validate_triggers import validate_api, validate_trigger
from ebbtide.scenario.words import PartitionName


def validate_step(parts: Parts, part: StepPart, where: str, names: EarlierNames) -> Iterator[UsageError]:
    """Report the mistakes of one step; `names` are those of earlier steps."""
    yield from _references(parts, part, where, names)
    yield from _keys_of_any_kind(parts, part, where)
    for trigger in part.triggers:
        yield from validate_trigger(parts, trigger, f"{where}.trigger", names)
    if part.type is not None:
        yield from validate_either(part, part.type, where)
        if part.type.kind.only_brokers is not None:
            yield from part.check(_only_brokers, part.type.kind.only_brokers, where)
        yield from _own_rules(parts, part, part.type, where, names)


def _references(parts: Parts, part: StepPart, where: str, names: EarlierNames) -> Iterator[UsageError]:
    """Validate the nodes and other things that a step names in keys of its own."""
    for key, value in (*part.values.items(), *part.torn.items()):
        clients = key != "target" or part.type is None or part.type.kind.family == "wire"
        for at, one in _each_value(f"{where}.{key}", value):
            match one:
                case Role():
                    yield from validate_role(parts, one, at, names, clients=clients)
                case PartitionName():
                    yield from validate_partition(parts, one, at, names)
                case ConfigResource():
                    yield from validate_resource(parts, one, at, names)
                case str() if key in _TEXTS:
                    yield from _TEXTS[key](parts, one, at)


def _keys_of_any_kind(parts: Parts, part: StepPart, where: str) -> Iterator[UsageError]:
    """Check the rules of single keys, which hold whatever the kind of the step is."""
    for key, low, high in (("deadline_s", 0.1, None), ("times", 1, 1_000), ("level", 0, None), ("before", 1, None)):
        yield from limit_field(where, part, key, low, high)
    yield from validate_groups(part.elements("groups"), f"{where}.groups")
    yield from validate_replicas(part.elements("replicas"), f"{where}.replicas", parts.brokers)


def _each_value(where: str, value: object) -> Iterator[tuple[str, object]]:
    """Each value by its place; those of lists by theirs, as in `groups[0][1]`."""
    if not isinstance(value, tuple):
        yield where, value
        return
    for at, one in enumerate(value):
        yield from _each_value(f"{where}[{at}]", one)


_TEXTS: Mapping[str, Callable[[Parts, str, str], Iterator[UsageError]]] = {
    "topic": validate_topic_exists,
    "feature": lambda _parts, name, where: validate_feature_name(name, where),
    "expect_error": lambda _parts, name, where: validate_error_name(name, where),
    "api": lambda _parts, name, where: validate_api(name, where),
}
"""Texts of steps that name something of Kafka's."""


def _only_brokers(what: str, where: str, *, target: Role | None) -> Iterator[UsageError]:
    if target is not None:
        yield from validate_broker(target, f"{where}.target", what)


def _own_rules(
    parts: Parts, step: StepPart, kind: type[BaseStep], where: str, names: EarlierNames
) -> Iterator[UsageError]:
    """Check the rules of single kinds."""
    if issubclass(kind, BetweenStep):
        yield from validate_sides(step, where)
    elif issubclass(kind, DeleteTopicStep):
        yield from step.check(validate_deleted_topic, parts, where, names)
    elif issubclass(kind, CreateTopicStep):
        yield from step.check(validate_created_topic, parts, where, names)
    elif issubclass(kind, AddPartitionsStep):
        yield from step.check(validate_added_partitions, parts, where, names)
    elif issubclass(kind, IsolateStep):
        yield from step.check(validate_isolation, where)
    elif issubclass(kind, HoldRequestStep):
        yield from step.check(validate_late, where)
    elif issubclass(kind, DirectoryStep):
        yield from step.check(validate_directory_step, parts, where)
        yield from step.check(validate_owner, where)
        if issubclass(kind, SlowDiskStep):
            yield from step.check(validate_slow_delay, where)
            yield from step.check(validate_slowness, where)
    elif issubclass(kind, MoveReplicaStep):
        yield from step.check(validate_directory_step, parts, where)
