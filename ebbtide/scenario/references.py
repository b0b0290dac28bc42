"""Validates references in a scenario file, and ranges of numbers.

References are to topics, partitions, roles and config resources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from ebbtide.errors import UsageError
from ebbtide.scenario.group_offsets import OFFSETS_TOPIC
from ebbtide.scenario.parts import Parts, StepPart, TablePart
from ebbtide.scenario.roles import ConfigResource, Role
from ebbtide.scenario.words import PartitionName
from ebbtide.suggestions import bracketed_suggestion


class EarlierNames(msgspec.Struct, frozen=True):
    """The names of the steps before a step.

    They are not `complete` if the name of one could not be read.
    """

    known: frozenset[str] = frozenset()
    complete: bool = True

    def with_step(self, step: StepPart) -> EarlierNames:
        """These names and that of one step more."""
        known = self.known if step.name is None else self.known | {step.name}
        return EarlierNames(known, self.complete and "name" not in step.unread)


def limit(where: str, got: float, low: float, high: float | None = None, *, why: str = "") -> Iterator[UsageError]:
    """A number out of its range, both ends allowed; `why` says where the range comes from."""
    if got < low or (high is not None and got > high):
        allowed = f"{_plain_number(low)} or more" if high is None else f"{_plain_number(low)} to {_plain_number(high)}"
        yield UsageError(
            "out of range", where=where, got=_plain_number(got), allowed=allowed + (f" ({why})" if why else "")
        )


def limit_field(
    where: str, part: TablePart, name: str, low: float, high: float | None = None, *, why: str = ""
) -> Iterator[UsageError]:
    """A field out of its range; nothing of one that is unset, or could not be read."""
    got = part.get(name)
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


def validate_topic_exists(parts: Parts, name: str, where: str) -> Iterator[UsageError]:
    """A topic that the scenario does not have."""
    if parts.topics and name not in parts.topics:
        names = sorted(parts.topics)
        yield UsageError(
            "unknown topic", where=where, got=repr(name), allowed=", ".join(names) + bracketed_suggestion(name, names)
        )


def validate_partition(parts: Parts, partition: PartitionName, where: str) -> Iterator[UsageError]:
    """A partition that no topic of the scenario has."""
    if not parts.topics:
        return
    topic, number = partition.at
    sizes = {name: parts.partitions_of(name) for name in parts.topics}
    if topic in sizes and sizes[topic] < 1:
        return
    if number >= sizes.get(topic, 0):
        names = [f"{name}-{index}" for name, size in sizes.items() for index in range(size)]
        allowed = (
            ", ".join(names[:8]) + (", ..." if len(names) > 8 else "") + bracketed_suggestion(str(partition), names)
        )
        yield UsageError("unknown partition", where=where, got=repr(partition), allowed=allowed)


def validate_role(parts: Parts, role: Role, where: str, names: EarlierNames, *, clients: bool) -> Iterator[UsageError]:
    """Report a role whose partition, group, broker or step does not exist.

    `clients` says whether the role may mean clients. `names` are those of earlier steps.
    """
    if role.kind == "coordinator":
        yield from _validate_coordinator(parts, str(role.argument), where)
    elif role.partition is not None:
        yield from validate_partition(parts, role.partition, where)
    elif role.broker is not None:
        yield from limit(where, role.broker, 1, parts.brokers)
    elif role.kind == "step" and role.argument not in names.known and names.complete:
        allowed = ", ".join(sorted(names.known)) or "none: no earlier step has a name"
        yield UsageError("no earlier step of that name", where=where, got=repr(role.argument), allowed=allowed)
    elif role.kind == "clients" and not clients:
        yield UsageError("clients cannot be a target", where=where, got=repr(role), allowed="a role of brokers")


def _validate_coordinator(parts: Parts, group: str, where: str) -> Iterator[UsageError]:
    """A group that no consumer of the scenario is in, or whose topic the scenario does not have."""
    consumers = parts.consumers or ()
    groups = sorted({str(one.get("group")) for one in consumers if one is not None and one.get("group") is not None})
    are_read = None not in consumers and all("group" not in one.unread for one in consumers if one is not None)
    if group not in groups and parts.consumers is not None and are_read:
        allowed = ", ".join(groups) + bracketed_suggestion(group, groups) if groups else "none: no consumer has a group"
        yield UsageError("no group of that name", where=where, got=repr(group), allowed=allowed)
    elif parts.topics and OFFSETS_TOPIC not in parts.topics:
        yield without_offsets_topic(where, f"coordinator({group})")


def without_offsets_topic(where: str, got: str) -> UsageError:
    """Return the error for a scenario that uses `__consumer_offsets` and does not say how it is replicated."""
    return UsageError(
        f"the scenario does not say how {OFFSETS_TOPIC} is replicated",
        where=where,
        got=got,
        allowed=f"[topics.{OFFSETS_TOPIC}] with replication_factor and min_isr",
    )


def validate_resource(parts: Parts, resource: ConfigResource, where: str, names: EarlierNames) -> Iterator[UsageError]:
    """Report a config resource of an unknown topic or role, or of a non-broker.

    The request for a controller's would have to go to a controller.
    """
    if resource.topic is not None:
        yield from validate_topic_exists(parts, resource.topic, where)
    if resource.role is not None:
        yield from validate_role(parts, resource.role, where, names, clients=False)
        if resource.role.kind in ("controller", "controllers"):
            yield UsageError(
                "a config of a controller",
                where=where,
                got=repr(resource.role),
                allowed="a role of one broker; what controllers start with is cluster.controller_properties",
            )
