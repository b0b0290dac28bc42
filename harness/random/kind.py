"""What the generator knows of one kind of step, and the words that all kinds share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import msgspec

from analysis.spec import Partition
from ebbtide.scenario.model import StepSpec, Trigger
from ebbtide.scenario.steps.table import KINDS, StepKind
from ebbtide.scenario.words import Duration
from harness.random.world import CONTROLLER, World

Propose = Callable[[World, Random], StepSpec | None]
Fit = Callable[[World, StepSpec], StepSpec | None]
Apply = Callable[[World, StepSpec], float]


class DrawnKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of step.

    `propose` draws one that makes sense now, or None. `fit`: the step, from wherever it comes, as it is valid now;
    None: not at all. `apply` makes its effect on the world, and returns for how many seconds it may last, its
    trigger apart.
    """

    propose: Propose
    fit: Fit
    apply: Apply


def pause_before(random: Random) -> Trigger | None:
    """A while until a step fires; often none, so that it falls into the middle of what the last one set going."""
    if random.random() < 0.35:
        return None
    return Trigger(after=Duration(random.choice(("200ms", "500ms", "1s", "1.5s", "2s", "3s"))))


def waiting_s(step: StepSpec) -> float:
    """For how long a step's trigger may keep the schedule."""
    if step.trigger is None:
        return 0.0
    return step.trigger.after.seconds if step.trigger.after is not None else min(step.deadline_s, 6.0)


def after_only(step: StepSpec) -> StepSpec:
    """The step with no other trigger than a time: one that must come whatever the cluster does."""
    if step.trigger is None or step.trigger.after is not None:
        return step
    return msgspec.structs.replace(step, trigger=Trigger(after=Duration("2s")), deadline_s=30.0)


def drawn_keys(kind: StepKind, random: Random) -> dict[str, Duration]:
    """Durations for the keys of a kind that are drawn freely; where there is one only, nothing is drawn."""
    drawn = KINDS[kind].drawn.items()
    return {key: Duration(random.choice(values) if values[1:] else values[0]) for key, values in drawn}


def some_partition(world: World, random: Random) -> tuple[str, Partition]:
    """A partition that clients use."""
    name = random.choice(sorted(world.partitions))
    return name, world.partitions[name]


def some_broker(world: World, random: Random, among: Sequence[int]) -> int | None:
    """One of `among`, leaders before ISR and ELR members before the others: there the protocol decides most."""
    if not among:
        return None

    def weight(broker: int) -> float:
        places = world.partitions.values()
        return (
            1.0
            + 2.0 * sum(broker == one.leader for one in places)
            + sum(broker in one.isr or broker in one.elr for one in places)
        )

    return random.choices(list(among), [weight(one) for one in among])[0]


def broker_role(broker: int) -> str:
    """The role that always stands for it."""
    return f"broker({broker})"


def controller_name(world: World) -> str:
    """A name of its own for a step whose target a later step heals."""
    return f"controller-{world.steps}"


def at_controller(world: World, step: StepSpec) -> bool:
    """Whether the step is about a controller."""
    return step.target is not None and world.id_of(step.target) == CONTROLLER
