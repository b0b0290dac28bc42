"""Validates references in a scenario file, and ranges of numbers.

References are to topics, partitions, roles and config resources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from ebbtide.errors import UsageError
from ebbtide.scenario.internal_topics import OFFSETS_TOPIC
from ebbtide.scenario.model import NodeRole, Scenario
from ebbtide.scenario.steps.admin import AddPartitionsStep, CreateTopicStep, DeleteTopicStep
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.words import FIRST_CONTROLLER, ConfigResource, PartitionName, Role
from ebbtide.suggestions import bracketed_suggestion


class UnknownTopic(UsageError):
    """A topic or partition that the scenario does not have.

    The steps of a `chaos` test may name topics that the test made for its own clients, so a record may have them.
    """


class EarlierNames(msgspec.Struct, frozen=True):
    """What the steps before a step name: themselves, and partitions that they add.

    `partition_counts`: the most partitions that the steps give each topic. `deleted_topics`: those that they delete and
    do not make again.
    """

    known: frozenset[str] = frozenset()
    partition_counts: Mapping[str, int] = {}
    deleted_topics: frozenset[str] = frozenset()

    def with_step(self, step: StepSpec) -> EarlierNames:
        """These names and that of one step more."""
        known = self.known if step.name is None else self.known | {step.name}
        counts, deleted = self.partition_counts, self.deleted_topics
        if getattr(step, "expect_error", None) is None:
            match step:
                case AddPartitionsStep(topic=topic, count=count):
                    counts = {**counts, topic: max(count, counts.get(topic, 0))}
                case CreateTopicStep(topic=topic):
                    deleted -= {topic}
                case DeleteTopicStep(topic=topic):
                    deleted |= {topic}
        return EarlierNames(known, counts, deleted)

    def partitions_of(self, scenario: Scenario, topic: str) -> int:
        """How many partitions a topic has after these steps; 0 if there is no such topic."""
        spec = scenario.topics.get(topic)
        first = 0 if spec is None else spec.partitions
        return max(first, self.partition_counts.get(topic, 0)) if first else 0


def limit(where: str, got: float, low: float, high: float | None = None, *, why: str = "") -> Iterator[UsageError]:
    """A number out of its range, both ends allowed; `why` says where the range comes from."""
    if got < low or (high is not None and got > high):
        allowed = f"{_plain_number(low)} or more" if high is None else f"{_plain_number(low)} to {_plain_number(high)}"
        yield UsageError(
            "out of range", where=where, got=_plain_number(got), allowed=allowed + (f" ({why})" if why else "")
        )


def limit_field(
    where: str, part: object, name: str, low: float, high: float | None = None, *, why: str = ""
) -> Iterator[UsageError]:
    """A field out of its range; nothing of one that is unset, or that the part does not have."""
    got = getattr(part, name, None)
    if got is not None:
        yield from limit(f"{where}.{name}", got, low, high, why=why)


def _plain_number(number: float) -> str:
    """As a person types it: 1048000, not 1.048e+06."""
    return str(number) if isinstance(number, int) else f"{number:.15g}"


def put_at(where: str, check: Callable[[], object]) -> Iterator[UsageError]:
    """Run a parser and put its complaint at `where`."""
    try:
        check()
    except UsageError as error:
        yield UsageError(error.what, where=where, got=error.got, allowed=error.allowed)


def validate_topic_exists(scenario: Scenario, name: str, where: str) -> Iterator[UsageError]:
    """A topic that the scenario does not have."""
    if scenario.topics and name not in scenario.topics:
        names = sorted(scenario.topics)
        yield UnknownTopic(
            "unknown topic", where=where, got=repr(name), allowed=", ".join(names) + bracketed_suggestion(name, names)
        )


def validate_broker(role: Role, where: str, what: str) -> Iterator[UsageError]:
    """A role of controllers where only a broker can be meant."""
    if role.kind in ("controller", "controllers"):
        yield UsageError(what, where=where, got=repr(role), allowed="a role of brokers")


def validate_partition(
    scenario: Scenario, partition: PartitionName, where: str, names: EarlierNames
) -> Iterator[UsageError]:
    """A partition that no topic of the scenario has yet."""
    if not scenario.topics:
        return
    topic, number = partition.at
    sizes = {name: names.partitions_of(scenario, name) for name in scenario.topics}
    if topic in sizes and sizes[topic] < 1:
        return
    if number >= sizes.get(topic, 0):
        known = [f"{name}-{index}" for name, size in sizes.items() for index in range(size)]
        # Every partition ends with a number, which makes none resemble another topic's.
        others = {name: f"{name}-{number}" for name, size in sizes.items() if number < size}
        near = bracketed_suggestion(topic, others, shown=others)
        allowed = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "") + near
        yield UnknownTopic("unknown partition", where=where, got=repr(partition), allowed=allowed)


def validate_role(
    scenario: Scenario, role: Role, where: str, names: EarlierNames, *, clients: bool
) -> Iterator[UsageError]:
    """Report a role whose partition, group, broker or step does not exist.

    `clients` says whether the role may mean clients. `names` are those of earlier steps.
    """
    if role.kind == "coordinator":
        yield from _validate_coordinator(scenario, str(role.argument), where)
    elif role.partition is not None:
        yield from validate_partition(scenario, role.partition, where, names)
    elif role.broker is not None:
        yield from _validate_node(role, role.broker, where, "broker", 1, scenario.cluster.brokers)
    elif role.controller is not None:
        count = scenario.cluster.controllers
        yield from _validate_node(role, role.controller, where, "controller", FIRST_CONTROLLER, count)
    elif role.kind == "step" and role.argument not in names.known:
        allowed = ", ".join(sorted(names.known)) or "none: no earlier step has a name"
        yield UsageError("no earlier step of that name", where=where, got=repr(role.argument), allowed=allowed)
    elif role.kind == "clients" and not clients:
        yield UsageError("clients cannot be a target", where=where, got=repr(role), allowed="a role of brokers")


def _validate_node(role: Role, node: int, where: str, kind: NodeRole, first: int, count: int) -> Iterator[UsageError]:
    """Report a role of a node that the cluster does not have."""
    last = first + count - 1
    if not first <= node <= last:
        allowed = f"{kind}({first})" + (f" to {kind}({last})" if count > 1 else "") + f" (cluster.{kind}s)"
        yield UsageError(f"no {kind} of this id", where=where, got=repr(role), allowed=allowed)


def _validate_coordinator(scenario: Scenario, group: str, where: str) -> Iterator[UsageError]:
    """A group that no client of the scenario is in, or whose topic the scenario does not have."""
    groups = sorted(scenario.groups)
    if group not in groups:
        allowed = ", ".join(groups) + bracketed_suggestion(group, groups) if groups else "none: no client has a group"
        yield UsageError("no group of that name", where=where, got=repr(group), allowed=allowed)
    elif scenario.topics and OFFSETS_TOPIC not in scenario.topics:
        yield without_offsets_topic(where, f"coordinator({group})")


def without_offsets_topic(where: str, got: str) -> UsageError:
    """Return the error for a scenario that uses `__consumer_offsets` and does not say how it is replicated."""
    return UsageError(
        f"the scenario does not say how {OFFSETS_TOPIC} is replicated",
        where=where,
        got=got,
        allowed=f"[topics.{OFFSETS_TOPIC}] with replication_factor and min_isr",
    )


def validate_resource(
    scenario: Scenario, resource: ConfigResource, where: str, names: EarlierNames
) -> Iterator[UsageError]:
    """Report a config resource of an unknown topic or role, or of a non-broker.

    The request for a controller's would have to go to a controller.
    """
    if resource.topic is not None:
        yield from validate_topic_exists(scenario, resource.topic, where)
    if resource.role is not None:
        yield from validate_role(scenario, resource.role, where, names, clients=False)
        if resource.role.kind in ("controller", "controllers"):
            yield UsageError(
                "a config of a controller",
                where=where,
                got=repr(resource.role),
                allowed="a role of one broker; what controllers start with is cluster.controller_properties",
            )
