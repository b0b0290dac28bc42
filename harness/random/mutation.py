"""Makes new schedules by mutating and splicing old ones.

The result is valid and ends healed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from random import Random

import msgspec

from ebbtide.scenario.model import Scenario
from ebbtide.scenario.plain_values import rename_brokers
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.steps.table import StepKind
from harness.random.drawing import with_steps
from harness.random.schedule import without_frame

Slots = list[StepSpec | None]
"""The steps of a schedule in the making; None is a step still to draw, for the state it falls into."""
_MUTATIONS_MAX = 3
_SPLICE_PROBABILITY = 0.5


def mutate(
    base: Scenario, other: Scenario, random: Random, *, seed: int, steps: int, without: Collection[StepKind] = ()
) -> Scenario:
    """Return a mutation of `base` with about `steps` steps, on the cluster of `base`.

    Sometimes it has parts of `other`. Its description names the schedules it comes from. It has about `steps`
    steps, and its description names the schedules it comes from. The same arguments give the same schedule. No
    step is of the kinds `without`.
    """
    slots: Slots = [*without_frame(base.steps)]
    sources = [base.name]
    if other.name != base.name and random.random() < _SPLICE_PROBABILITY:
        slots = _splice(slots, [*without_frame(other.steps)], random)
        sources.append(other.name)
    for _ in range(random.randint(1, _MUTATIONS_MAX)):
        slots = random.choice(_MUTATIONS)(slots, random, base.cluster.brokers)
    slots += [None] * (steps - len(slots))
    # The healing steps at the end come on top of the drawn ones, so the result may have more steps than asked.
    while len(slots) > steps + steps // 2:
        slots = _drop(slots, random, base.cluster.brokers)
    setting = msgspec.structs.replace(
        base,
        name=f"random-{seed}",
        title=f"A random schedule, mutated with seed {seed}",
        description=f"Mutated with seed {seed} from {' and '.join(sources)}, whose runs reached rare states.",
    )
    return with_steps(setting, slots, random, without=without)


def _splice(slots: Slots, others: Slots, random: Random) -> Slots:
    return slots[: random.randint(0, len(slots))] + others[random.randint(0, len(others)) :]


def _drop(slots: Slots, random: Random, _brokers: int) -> Slots:
    at = random.randrange(len(slots) + 1)
    return slots[:at] + slots[at + random.randint(1, 3) :]


def _insert(slots: Slots, random: Random, _brokers: int) -> Slots:
    at = random.randrange(len(slots) + 1)
    return [*slots[:at], *[None] * random.randint(1, 3), *slots[at:]]


def _renew_end(slots: Slots, random: Random, _brokers: int) -> Slots:
    """Keep the steps that led to the rare state, and draw the steps after it anew."""
    at = random.randrange(len(slots) + 1)
    return [*slots[:at], *[None] * max(3, len(slots) - at)]


def _repeat(slots: Slots, random: Random, _brokers: int) -> Slots:
    at = random.randrange(len(slots) + 1)
    return slots[:at] + slots[max(0, at - random.randint(2, 5)) : at] + slots[at:]


def _swap(slots: Slots, random: Random, _brokers: int) -> Slots:
    if len(slots) < 2:
        return slots
    at = random.randrange(len(slots) - 1)
    return [*slots[:at], slots[at + 1], slots[at], *slots[at + 2 :]]


def _rename(slots: Slots, random: Random, brokers: int) -> Slots:
    """Permute the brokers in all steps from a random one on."""
    ids = list(range(1, brokers + 1))
    permutation = dict(zip(ids, random.sample(ids, len(ids)), strict=True))
    at = random.randrange(len(slots) + 1)
    return slots[:at] + [one if one is None else rename_brokers(one, permutation) for one in slots[at:]]


_MUTATIONS: Sequence[Callable[[Slots, Random, int], Slots]] = (
    *(_renew_end, _renew_end, _renew_end),
    *(_insert, _insert),
    *(_drop, _repeat, _swap, _rename),
)
"""Mutations that draw new steps are listed more often.

A rare state depends on the steps before it; what follows it is free.
"""
