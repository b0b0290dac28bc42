"""What the types of steps and triggers cannot say: keys of a kind, groups that overlap, triggers that never fire."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import combinations, product

import msgspec

from ebbtide.errors import UsageError
from ebbtide.scenario.admin_meaning import deleted_topic, error_known, feature_known, replicas
from ebbtide.scenario.fault_meaning import cut_of_itself, isr_size, only_brokers, part_of_each_period
from ebbtide.scenario.model import OfPartitions, Scenario, StepSpec, Trigger
from ebbtide.scenario.references import (
    Wrong,
    brokers_of,
    limit,
    partition_known,
    resource_known,
    role_known,
    topic_exists,
)
from ebbtide.scenario.roles import Role, overlap, parse_role
from ebbtide.scenario.step_keys import keys_of_kind
from ebbtide.scenario.steps.table import KINDS
from ebbtide.scenario.wire_meaning import wire_step

_TRIGGERS = {field.encode_name: field.name for field in msgspec.structs.fields(Trigger)}


def step_meaning(scenario: Scenario, step: StepSpec, where: str, names: set[str], wrong: Wrong) -> Iterator[UsageError]:
    """What is wrong with one step; `names` are those of earlier steps."""
    kind = KINDS[step.step]
    if not wrong(f"{where}.step"):
        yield from keys_of_kind(step, where, wrong)
    yield from _overlaps(step, f"{where}.groups")
    yield from limit(f"{where}.deadline_s", step.deadline_s, 0.1)
    if step.target is not None:
        clients = kind.family == "wire"
        yield from role_known(scenario, step.target, f"{where}.target", names, wrong, clients=clients)
    for at, group in enumerate(step.groups):
        for member, role in enumerate(group):
            yield from role_known(scenario, role, f"{where}.groups[{at}][{member}]", names, wrong, clients=True)
    for side, roles in (("from", step.from_), ("to", step.to)):
        for member, role in enumerate(roles):
            yield from role_known(scenario, role, f"{where}.{side}[{member}]", names, wrong, clients=True)
    if step.times is not None:
        yield from limit(f"{where}.times", step.times, 1, 1_000)
    yield from cut_of_itself(step, where)
    if {"delay", "period"} <= {*kind.needs}:
        yield from part_of_each_period(step, where)
    if kind.only_brokers is not None and step.target is not None:
        yield from only_brokers(step.target, f"{where}.target", kind.only_brokers)
    yield from _admin(scenario, step, where, names, wrong)
    yield from wire_step(step, where)
    if step.trigger is not None:
        yield from _trigger(scenario, step.trigger, f"{where}.trigger", names, wrong)


def _admin(scenario: Scenario, step: StepSpec, where: str, names: set[str], wrong: Wrong) -> Iterator[UsageError]:
    if step.partition is not None:
        yield from partition_known(scenario, step.partition, f"{where}.partition", wrong)
    for at, role in enumerate(step.replicas):
        yield from role_known(scenario, role, f"{where}.replicas[{at}]", names, wrong, clients=True)
    yield from replicas(step, f"{where}.replicas", brokers_of(scenario, wrong))
    if step.resource is not None:
        yield from resource_known(scenario, step.resource, f"{where}.resource", names, wrong)
    if step.feature is not None:
        yield from feature_known(step.feature, f"{where}.feature")
        yield from limit(f"{where}.level", step.level or 0, 0)
    if step.topic is not None:
        yield from topic_exists(scenario, step.topic, f"{where}.topic", wrong)
        yield from deleted_topic(scenario, step.topic, f"{where}.topic")
    if step.expect_error is not None:
        yield from error_known(step.expect_error, f"{where}.expect_error")


def _overlaps(step: StepSpec, where: str) -> Iterator[UsageError]:
    """Roles of two groups with a node in common; a one-way cut may have one on both sides, as in brokers > brokers."""
    for (at, one), (other_at, other) in combinations(enumerate(step.groups), 2):
        for (text, role), (other_text, other_role) in product(_parsed(one), _parsed(other)):
            if overlap(role, other_role):
                yield UsageError(
                    "two groups overlap: a node cannot be cut from itself",
                    where=where,
                    got=f"{text!r} in groups[{at}] and {other_text!r} in groups[{other_at}]",
                    allowed="groups with no node in common, e.g. leader(t-0) and followers(t-0)",
                )


def _parsed(group: tuple[str, ...]) -> list[tuple[str, Role]]:
    """The roles of a group, without those that are none: they have had their own complaint."""
    roles = []
    for text in group:
        with contextlib.suppress(UsageError):
            roles.append((text, parse_role(text)))
    return roles


def _trigger(scenario: Scenario, trigger: Trigger, where: str, names: set[str], wrong: Wrong) -> Iterator[UsageError]:
    fields = _TRIGGERS
    given = [key for key, name in fields.items() if getattr(trigger, name) is not None or wrong(f"{where}.{key}")]
    if len(given) != 1:
        got = ", ".join(given) or "none"
        yield UsageError(
            "a trigger asks one thing", where=where, got=got, allowed="exactly one of " + ", ".join(fields)
        )
    if trigger.acked is not None:
        yield from limit(f"{where}.acked", trigger.acked, 1)
        total = sum(p.count for p in scenario.producers if p.count is not None)
        endless = any(p.count is None for p in scenario.producers)
        if not endless and not wrong("producers") and total < trigger.acked:
            yield UsageError("can never fire", where=f"{where}.acked", got=str(trigger.acked), allowed=f"up to {total}")
    for key in fields.values():
        asked = getattr(trigger, key)
        if isinstance(asked, OfPartitions):
            yield from _partitions(scenario, asked, f"{where}.{key}", wrong)
    if trigger.isr is not None:
        sizes = {"size": trigger.isr.size, "at_least": trigger.isr.at_least}
        if sum(size is not None or wrong(f"{where}.isr.{key}") for key, size in sizes.items()) != 1:
            yield UsageError("say how large the ISR is", where=f"{where}.isr", allowed="either size or at_least")
        else:
            yield from isr_size(scenario, trigger.isr, f"{where}.isr", wrong)
    for key in ("elr_contains", "leader_is", "broker_is"):
        asked = getattr(trigger, key)
        if asked is not None and not (key == "leader_is" and asked.broker == "none"):
            yield from role_known(scenario, asked.broker, f"{where}.{key}.broker", names, wrong, clients=False)
            yield from only_brokers(asked.broker, f"{where}.{key}.broker", "can never fire: not a broker")
    if trigger.held is not None:
        yield from role_known(scenario, trigger.held.node, f"{where}.held.node", names, wrong, clients=True)
    if trigger.replicas is not None:
        for at, role in enumerate(trigger.replicas.are):
            yield from role_known(scenario, role, f"{where}.replicas.are[{at}]", names, wrong, clients=False)
            yield from only_brokers(role, f"{where}.replicas.are[{at}]", "can never fire: not a broker")
    if trigger.config_is is not None:
        yield from resource_known(scenario, trigger.config_is.resource, f"{where}.config_is.resource", names, wrong)


def _partitions(scenario: Scenario, asked: OfPartitions, where: str, wrong: Wrong) -> Iterator[UsageError]:
    given = {"partition": asked.partition is not None, "partitions": bool(asked.partitions)}
    if sum(one or wrong(f"{where}.{key}") for key, one in given.items()) != 1:
        allowed = "either partition = 't-0', or partitions = ['t-0', 't-1']"
        yield UsageError("say which partition", where=f"{where}.partition", allowed=allowed)
    if asked.partition is not None:
        yield from partition_known(scenario, asked.partition, f"{where}.partition", wrong)
    for at, name in enumerate(asked.partitions or ()):
        yield from partition_known(scenario, name, f"{where}.partitions[{at}]", wrong)
