"""How one kind of step is generated, and the helpers that all kinds share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar, cast

import msgspec

from analysis.spec import Partition
from ebbtide.scenario.steps.step import StepSpec, target_of
from ebbtide.scenario.steps.table import KINDS, STEP_TYPES, StepKind
from ebbtide.scenario.triggers import AfterTrigger, Trigger, after
from ebbtide.scenario.words import Duration, Role
from harness.random.world import CONTROLLER, World

S = TypeVar("S", bound=StepSpec)

Propose = Callable[[World, Random], StepSpec | None]
Fit = Callable[[World, Any], StepSpec | None]
Apply = Callable[[World, Any], float | None]


class StepGenerator(msgspec.Struct, frozen=True, kw_only=True):
    """Generates steps of one kind.

    - `propose` draws a step that makes sense in the world as it is, or returns None.
    - `fit` changes a given step so that it is valid now, or returns None if it cannot be.
    - `apply` changes the world as the step does. It returns how many seconds the step may take without its trigger,
      or None if these are those of its kind.
    """

    propose: Propose
    fit: Fit
    apply: Apply = lambda _world, _step: None

    def carry_out(self, world: World, step: StepSpec) -> None:
        """Change the world as a step does, and let the time pass that it takes."""
        own_s = self.apply(world, step)
        world.pass_time(waiting_s(step) + (step.kind.lasts_s if own_s is None else own_s))


def draw_delay(random: Random) -> Trigger | None:
    """Draw how long a step waits before it fires.

    Often it does not wait, so that it hits what the last step caused.
    """
    if random.random() < 0.35:
        return None
    return after(random.choice(("200ms", "500ms", "1s", "1.5s", "2s", "3s")))


def waiting_s(step: StepSpec) -> float:
    """Return for how many seconds a step's trigger may hold up the schedule."""
    if step.trigger is None:
        return 0.0
    return step.trigger.seconds if isinstance(step.trigger, AfterTrigger) else min(step.deadline_s, 6.0)


def with_time_trigger(step: S) -> S:
    """Return the step with a trigger that fires whatever the cluster does.

    The trigger is a time, or none.
    """
    if step.trigger is None or isinstance(step.trigger, AfterTrigger):
        return step
    return step.replace(trigger=after("2s"), deadline_s=30.0)


def draw_durations(kind: StepKind, random: Random) -> dict[str, Duration]:
    """Draw the durations of a kind's free keys.

    A key with one allowed value draws nothing.
    """
    drawn = KINDS[kind].drawn.items()
    return {key: Duration(random.choice(values) if values[1:] else values[0]) for key, values in drawn}


def draw_partition(world: World, random: Random) -> tuple[str, Partition]:
    """Draw a partition that clients use."""
    name = random.choice(sorted(world.partitions))
    return name, world.partitions[name]


def draw_broker(world: World, random: Random, among: Sequence[int]) -> int | None:
    """Draw one of the brokers `among`; None if there is none.

    Leaders are likelier than members of ISR and ELR, and these likelier than others: a fault there makes the protocol
    decide more.
    """
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


def step_on(kind: StepKind, target: Role, trigger: Trigger | None, **keys: object) -> StepSpec:
    """A step of a kind that needs a target, with these keys besides."""
    return cast(StepSpec, cast(Any, STEP_TYPES[kind])(target=target, trigger=trigger, **keys))


def controller_name(world: World) -> str:
    """Return a unique name for a step on a controller.

    The step that heals it refers to this name.
    """
    return f"controller-{world.steps}"


def is_at_controller(world: World, step: StepSpec) -> bool:
    """Whether the step's target is a controller."""
    target = target_of(step)
    return target is not None and world.id_of(target) == CONTROLLER
