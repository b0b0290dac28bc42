"""Validates steps: unknown names, numbers out of range, exclusive keys, no targets, nodes cut from themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product, takewhile

from ebbtide.errors import UsageError
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.plain_values import is_set
from ebbtide.scenario.references import (
    EarlierNames,
    limit,
    limit_field,
    validate_broker,
    validate_partition,
    validate_resource,
    validate_role,
    validate_topic_exists,
)
from ebbtide.scenario.steps.admin import AddPartitionsStep, CreateTopicStep, DeleteTopicStep, MoveReplicaStep
from ebbtide.scenario.steps.disk import DirectoryStep, SlowDiskStep
from ebbtide.scenario.steps.network import BetweenStep, IsolateStep
from ebbtide.scenario.steps.step import StepSpec, struct_fields, target_of
from ebbtide.scenario.steps.table import STEP_TYPES
from ebbtide.scenario.steps.wire import HoldRequestStep
from ebbtide.scenario.validate_admin import (
    validate_added_partitions,
    validate_created_topic,
    validate_deleted_topic,
    validate_error_name,
    validate_replicas,
)
from ebbtide.scenario.validate_quorum import validate_directory
from ebbtide.scenario.validate_triggers import validate_api, validate_trigger
from ebbtide.scenario.validate_upgrades import validate_feature_name
from ebbtide.scenario.words import ConfigResource, PartitionName, Role, overlap

SLOW_DISK_DELAY_S_MAX = 5.0
"""Nothing can end a process that waits for a frozen volume, and the end of a run waits so long for one to die."""

_ONE_NODE = ("leader", "last-known-leader", "longest-log", "controller", "broker", "clients")


def validate_step(scenario: Scenario, step: StepSpec, where: str, names: EarlierNames) -> Iterator[UsageError]:
    """Report the mistakes of one step; `names` are those of earlier steps."""
    yield from _references(scenario, step, where, names)
    yield from _keys_of_any_kind(scenario, step, where)
    if step.trigger is not None:
        yield from validate_trigger(scenario, step.trigger, f"{where}.trigger", names)
    target = target_of(step)
    if step.kind.only_brokers is not None and target is not None:
        yield from validate_broker(target, f"{where}.target", step.kind.only_brokers)
    yield from _own_rules(scenario, step, where, names)
    clients = [f"{kind}({one.id})" for kind in ("producer", "consumer") for one in getattr(scenario, f"{kind}s")]
    yield from step.mistakes(clients, takewhile(lambda one: one is not step, scenario.steps), where)


def _references(scenario: Scenario, step: StepSpec, where: str, names: EarlierNames) -> Iterator[UsageError]:
    """Validate the nodes and other things that a step names in keys of its own."""
    for field in struct_fields(STEP_TYPES[step.step]):
        key, value = field.encode_name, getattr(step, field.name)
        clients = key != "target" or step.kind.family == "wire"
        for at, one in _each_value(f"{where}.{key}", value):
            match one:
                case Role():
                    yield from validate_role(scenario, one, at, names, clients=clients)
                case PartitionName():
                    yield from validate_partition(scenario, one, at, names)
                case ConfigResource():
                    yield from validate_resource(scenario, one, at, names)
                case str() if key in _TEXTS:
                    yield from _TEXTS[key](scenario, one, at)


def _keys_of_any_kind(scenario: Scenario, step: StepSpec, where: str) -> Iterator[UsageError]:
    """Check the rules of single keys, which hold whatever the kind of the step is."""
    for key, low, high in (("deadline_s", 0.1, None), ("times", 1, 1_000), ("level", 0, None), ("before", 1, None)):
        yield from limit_field(where, step, key, low, high)
    yield from validate_replicas(getattr(step, "replicas", ()), f"{where}.replicas", scenario.cluster.brokers)
    if step.kind.either is None:
        return
    one, other = step.kind.either
    told = _told(step, one, other)
    if len(told) != 1:
        got = " and ".join(told) or None
        allowed = f"either {one}, or {other} = true"
        yield UsageError(f"{step.step} needs one of two keys", where=f"{where}.{one}", got=got, allowed=allowed)


def _each_value(where: str, value: object) -> Iterator[tuple[str, object]]:
    """Each value by its place; those of lists by theirs, as in `groups[0][1]`."""
    if not isinstance(value, tuple):
        yield where, value
        return
    for at, one in enumerate(value):
        yield from _each_value(f"{where}[{at}]", one)


_TEXTS: Mapping[str, Callable[[Scenario, str, str], Iterator[UsageError]]] = {
    "topic": validate_topic_exists,
    "feature": lambda _scenario, name, where: validate_feature_name(name, where),
    "expect_error": lambda _scenario, name, where: validate_error_name(name, where),
    "api": lambda _scenario, name, where: validate_api(name, where),
}
"""Texts of steps that name something of Kafka's."""


def _told(step: StepSpec, *keys: str) -> list[str]:
    """Return those of these keys that the step says something in."""
    values = {field.encode_name: getattr(step, field.name) for field in struct_fields(STEP_TYPES[step.step])}
    return [key for key in keys if is_set(values.get(key))]


def _own_rules(scenario: Scenario, step: StepSpec, where: str, names: EarlierNames) -> Iterator[UsageError]:
    """Check the rules of single kinds."""
    match step:
        case BetweenStep():
            yield from _validate_sides(step, where)
        case DeleteTopicStep():
            yield from validate_deleted_topic(step, where, names)
        case CreateTopicStep():
            yield from validate_created_topic(scenario, step, where, names)
        case AddPartitionsStep():
            yield from validate_added_partitions(scenario, step, where, names)
        case IsolateStep():
            yield from _validate_not_itself(step.from_, (step.target,), where)
        case HoldRequestStep(late=True, direction="response"):
            allowed = "direction = 'request', or no late"
            yield UsageError("nobody would get a late answer", where=f"{where}.late", got="true", allowed=allowed)
        case DirectoryStep() | MoveReplicaStep():
            yield from validate_directory(scenario, step.directory, f"{where}.directory")
            if isinstance(step, DirectoryStep) and step.directory is not None:
                why = "only brokers have several log directories"
                yield from validate_broker(step.target, f"{where}.target", why)
            if isinstance(step, SlowDiskStep):
                yield from _validate_slowness(step, f"{where}.delay")


def _validate_slowness(step: SlowDiskStep, where: str) -> Iterator[UsageError]:
    """A delay that is longer than a node's end may wait, or than its period."""
    yield from limit(where, step.delay.seconds, 0.01, SLOW_DISK_DELAY_S_MAX)
    if step.delay.seconds >= step.period.seconds:
        got = f"{step.delay} of every {step.period}"
        yield UsageError("writes would wait for ever", where=where, got=got, allowed="less than the period")


def _validate_sides(step: BetweenStep, where: str) -> Iterator[UsageError]:
    """Neither groups nor two sides, both, or groups that cannot be apart."""
    told = _told(step, "groups", "from", "to")
    if told not in (["groups"], ["from", "to"]):
        missing = {"from": "to", "to": "from"}.get("".join(told), "groups")
        yield UsageError(
            "say whom to cut from whom",
            where=f"{where}.{missing}",
            got=" and ".join(told) or None,
            allowed="groups = [[...], [...]], or from = [...] and to = [...]",
        )
    elif len(step.groups) == 1:
        yield UsageError("one group is cut from nobody", where=f"{where}.groups", allowed="two groups or more")
    yield from _validate_groups(step.groups, f"{where}.groups")
    yield from _validate_not_itself(step.from_, step.to, where)


def _validate_not_itself(sources: tuple[Role, ...], targets: tuple[Role, ...], where: str) -> Iterator[UsageError]:
    """A cut of one node from that very node."""
    one = sources[0] if len(sources) == len(targets) == 1 else None
    if one is not None and one == targets[0] and one.kind in _ONE_NODE:
        yield UsageError(
            "a node cannot be cut from itself", where=f"{where}.from", got=repr(one), allowed="another role"
        )


def _validate_groups(groups: Sequence[Sequence[Role]], where: str) -> Iterator[UsageError]:
    """Report roles of two groups that have a node in common.

    A one-way cut may have a node on both sides, as in brokers > brokers.
    """
    for (at, one), (other_at, other) in combinations(enumerate(groups), 2):
        for role, other_role in product(one, other):
            if overlap(role, other_role):
                yield UsageError(
                    "two groups overlap: a node cannot be cut from itself",
                    where=where,
                    got=f"{role!r} in groups[{at}] and {other_role!r} in groups[{other_at}]",
                    allowed="groups with no node in common, e.g. leader(t-0) and followers(t-0)",
                )
