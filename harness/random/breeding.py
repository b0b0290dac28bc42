"""Makes new schedules of old ones: cut, repeated, crossed, with other brokers hit; always valid, always healed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import TypeVar

import msgspec

from ebbtide.scenario.model import BrokerTrigger, HeldTrigger, MemberTrigger, Scenario, StepSpec, Trigger
from ebbtide.scenario.steps.table import StepKind
from harness.random.drawing import with_steps
from harness.random.kind import broker_role
from harness.random.schedule import without_frame

Genes = list[StepSpec | None]
"""Steps to be; None: one that is still to be drawn, for the state in which it falls."""
_MUTATIONS_MAX = 3
_CROSSED = 0.5

_Asked = TypeVar("_Asked", BrokerTrigger, MemberTrigger)


def breed(
    mother: Scenario, father: Scenario, random: Random, *, seed: int, steps: int, without: Collection[StepKind] = ()
) -> Scenario:
    """A child on the mother's cluster; `steps` is how many it should have, about.

    It has what `random` says of both, and is told to come from them. Same arguments, same child.
    """
    genes: Genes = [*without_frame(mother.steps)]
    parents = [mother.name]
    if father.name != mother.name and random.random() < _CROSSED:
        genes = _cross(genes, [*without_frame(father.steps)], random)
        parents.append(father.name)
    for _ in range(random.randint(1, _MUTATIONS_MAX)):
        genes = random.choice(_MUTATIONS)(genes, random, mother.cluster.brokers)
    genes += [None] * (steps - len(genes))
    # Steps that heal at the end come on top of what was drawn, so a child may have some more than asked.
    while len(genes) > steps + steps // 2:
        genes = _drop(genes, random, mother.cluster.brokers)
    setting = msgspec.structs.replace(
        mother,
        name=f"random-{seed}",
        title=f"A random schedule, bred with seed {seed}",
        description=f"Bred with seed {seed} from {' and '.join(parents)}, whose runs reached what few had reached.",
    )
    return with_steps(setting, genes, random, without=without)


def _cross(genes: Genes, others: Genes, random: Random) -> Genes:
    return genes[: random.randint(0, len(genes))] + others[random.randint(0, len(others)) :]


def _drop(genes: Genes, random: Random, _brokers: int) -> Genes:
    at = random.randrange(len(genes) + 1)
    return genes[:at] + genes[at + random.randint(1, 3) :]


def _insert(genes: Genes, random: Random, _brokers: int) -> Genes:
    at = random.randrange(len(genes) + 1)
    return [*genes[:at], *[None] * random.randint(1, 3), *genes[at:]]


def _renew_end(genes: Genes, random: Random, _brokers: int) -> Genes:
    """What led to the rare state stays; what befalls it is drawn anew."""
    at = random.randrange(len(genes) + 1)
    return [*genes[:at], *[None] * max(3, len(genes) - at)]


def _repeat(genes: Genes, random: Random, _brokers: int) -> Genes:
    at = random.randrange(len(genes) + 1)
    return genes[:at] + genes[max(0, at - random.randint(2, 5)) : at] + genes[at:]


def _swap(genes: Genes, random: Random, _brokers: int) -> Genes:
    if len(genes) < 2:
        return genes
    at = random.randrange(len(genes) - 1)
    return [*genes[:at], genes[at + 1], genes[at], *genes[at + 2 :]]


def _rename(genes: Genes, random: Random, brokers: int) -> Genes:
    """From some step on other brokers play the same parts."""
    ids = list(range(1, brokers + 1))
    other = dict(zip(ids, random.sample(ids, len(ids)), strict=True))
    at = random.randrange(len(genes) + 1)
    return genes[:at] + [one if one is None else renamed(one, other) for one in genes[at:]]


_MUTATIONS: Sequence[Callable[[Genes, Random, int], Genes]] = (
    *(_renew_end, _renew_end, _renew_end),
    *(_insert, _insert),
    *(_drop, _repeat, _swap, _rename),
)
"""What draws most is there most often: a rare state hangs on the steps before it, and what may befall it is open."""


def renamed(step: StepSpec, other: Mapping[int, int]) -> StepSpec:
    """The step about other brokers, wherever it names one."""
    roles = {broker_role(one): broker_role(instead) for one, instead in other.items()}

    def all_of(words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(roles.get(word, word) for word in words)

    return msgspec.structs.replace(
        step,
        target=roles.get(step.target, step.target) if step.target is not None else None,
        groups=tuple(all_of(group) for group in step.groups),
        from_=all_of(step.from_),
        to=all_of(step.to),
        replicas=all_of(step.replicas),
        trigger=None if step.trigger is None else _renamed_trigger(step.trigger, roles),
    )


def _renamed_trigger(trigger: Trigger, roles: Mapping[str, str]) -> Trigger:
    def of(asked: _Asked | None) -> _Asked | None:
        return None if asked is None else msgspec.structs.replace(asked, broker=roles.get(asked.broker, asked.broker))

    held = trigger.held
    return msgspec.structs.replace(
        trigger,
        broker_is=of(trigger.broker_is),
        leader_is=of(trigger.leader_is),
        elr_contains=of(trigger.elr_contains),
        held=None if held is None else HeldTrigger(node=roles.get(held.node, held.node), api=held.api),
    )
