"""What the types of faults and of their triggers cannot say: nobody to act on, and states that cannot come about."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ebbtide.errors import UsageError
from ebbtide.scenario.model import IsrTrigger, Scenario, StepSpec
from ebbtide.scenario.references import Wrong, brokers_of, limit
from ebbtide.scenario.roles import Role, parse_role

SLOW_DISK_DELAY_S_MAX = 5.0
"""Nothing can end a process that waits for a frozen volume, and the end of a run waits so long for one to die."""

_NO_BROKERS = ("controller", "controllers")
_ONE_NODE = ("leader", "last-known-leader", "controller", "broker", "clients")


def only_brokers(text: str, where: str, what: str) -> Iterator[UsageError]:
    """A role of controllers where only a broker can be meant."""
    with contextlib.suppress(UsageError):
        if parse_role(text).kind in _NO_BROKERS:
            yield UsageError(what, where=where, got=repr(text), allowed="a role of brokers")


def cut_of_itself(step: StepSpec, where: str) -> Iterator[UsageError]:
    """A one-way cut, or an isolation, of one node from that very node."""
    sources, targets = _roles(step.from_), _roles(step.to)
    if step.step == "isolate" and step.target is not None:
        targets = _roles((step.target,))
    one = sources[0] if len(sources) == len(targets) == 1 else None
    if one is not None and one == targets[0] and one.kind in _ONE_NODE:
        yield UsageError(
            "a node cannot be cut from itself", where=f"{where}.from", got=repr(str(one)), allowed="another role"
        )


def part_of_each_period(step: StepSpec, where: str) -> Iterator[UsageError]:
    """A delay that is longer than its period, or than a node's end may wait."""
    if step.delay is None or step.period is None:
        return
    yield from limit(f"{where}.delay", step.delay.seconds, 0.01, SLOW_DISK_DELAY_S_MAX)
    if step.delay.seconds >= step.period.seconds:
        yield UsageError(
            "writes would wait for ever",
            where=f"{where}.delay",
            got=f"{step.delay} of every {step.period}",
            allowed="less than the period",
        )


def isr_size(scenario: Scenario, isr: IsrTrigger, where: str, wrong: Wrong) -> Iterator[UsageError]:
    """An ISR larger than a partition has replicas; where the schedule reassigns it, than there are brokers."""
    key, size = ("size", isr.size) if isr.size is not None else ("at_least", isr.at_least)
    if size is None:
        return
    yield from limit(f"{where}.{key}", size, 0 if key == "size" else 1)
    for partition in isr.asked:
        topic = scenario.topics.get(partition.rpartition("-")[0])
        if topic is None or wrong(f"topics.{partition.rpartition('-')[0]}"):
            continue
        reassigned = any(step.partition == partition and step.replicas for step in scenario.steps)
        replicas = brokers_of(scenario, wrong) if reassigned else topic.replication_factor
        if size > replicas:
            yield UsageError(
                f"can never fire: {partition} has {replicas} replicas",
                where=f"{where}.{key}",
                got=str(size),
                allowed=f"up to {replicas}",
            )


def _roles(texts: tuple[str, ...]) -> list[Role]:
    roles = []
    for text in texts:
        with contextlib.suppress(UsageError):
            roles.append(parse_role(text))
    return roles
