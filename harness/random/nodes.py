"""Generates steps on processes, such as kill, pause, restart and power loss."""

from __future__ import annotations

from random import Random
from typing import Literal

from ebbtide.scenario.steps.process import RestartStep, ResumeStep, RollingStep, StartStep
from ebbtide.scenario.steps.step import StepSpec, TargetStep
from ebbtide.scenario.steps.table import KINDS, LOSES_POWER, TAKES_DOWN, StepKind
from ebbtide.scenario.triggers import BrokerTrigger
from ebbtide.scenario.words import Role
from harness.random.kind import (
    Fit,
    Propose,
    StepGenerator,
    controller_name,
    draw_broker,
    draw_delay,
    is_at_controller,
    step_on,
    with_time_trigger,
)
from harness.random.volumes import draw_directory, fit_directory
from harness.random.world import CONTROLLER, Broker, World

_SHARE_OF_CONTROLLERS = 0.08
_CONTROLLER = Role("controller")


def _is_running(world: World, broker: int) -> bool:
    state = world.brokers[broker]
    return state.process == "up" and state.sick is None


def _can_stop(world: World, broker: int) -> bool:
    """Whether a broker can shut down cleanly.

    It needs the controller for that, and must have been unfenced.
    """
    return _is_running(world, broker) and world.brokers[broker].joined and world.is_calm


def _can_act_on(world: World, kind: StepKind, broker: int) -> bool:
    if kind in LOSES_POWER and world.brokers[broker].frozen:
        return False
    return _can_stop(world, broker) if KINDS[kind].clean else _is_running(world, broker)


def _can_act_on_controller(world: World, kind: StepKind) -> bool:
    held = any(at == CONTROLLER for at, _ in world.rules)
    return KINDS[kind].at_controllers and world.controller == "up" and not held


def _propose(kind: StepKind) -> Propose:
    def propose(world: World, random: Random) -> StepSpec | None:
        trigger = draw_delay(random)
        if random.random() < _SHARE_OF_CONTROLLERS and _can_act_on_controller(world, kind):
            return step_on(kind, _CONTROLLER, trigger)
        broker = draw_broker(world, random, [one for one in world.brokers if _can_act_on(world, kind, one)])
        if broker is None:
            return None
        return step_on(kind, Role.of_broker(broker), trigger, **draw_directory(kind, world, random))

    return propose


def _fit(kind: StepKind) -> Fit:
    def fit(world: World, step: TargetStep) -> StepSpec | None:
        step = with_time_trigger(step)
        who = world.id_of(step.target)
        if who == CONTROLLER:
            named = step.replace(name=controller_name(world), target=_CONTROLLER)
            return named if _can_act_on_controller(world, kind) else None
        if who not in world.brokers or not _can_act_on(world, kind, who):
            return None
        return fit_directory(world, step)

    return fit


def _broker_of(world: World, step: TargetStep) -> Broker:
    who = world.id_of(step.target)
    assert who is not None, "a step of an unknown broker is never fitted"
    return world.brokers[who]


def _take_down(world: World, step: TargetStep) -> float:
    if is_at_controller(world, step):
        world.controller, world.controller_step = "down", step.name
        return 1.0
    broker = _broker_of(world, step)
    broker.process, broker.fencing = "down", broker.joined
    broker.joined = broker.returning = False
    _mark_ended(world, step)
    return step.kind.lasts_s


def _mark_ended(world: World, step: TargetStep) -> None:
    """Mark the broker's process as ended.

    Only a stop and a restart leave a clean-shutdown file.
    """
    broker = world.id_of(step.target)
    assert broker is not None, "a step of an unknown broker is never fitted"
    world.replication.ended[broker] = step.kind.clean


def _pause(world: World, step: TargetStep) -> None:
    if is_at_controller(world, step):
        world.controller, world.controller_step = "paused", step.name
    else:
        _broker_of(world, step).process = "paused"


def _roles_in_state(world: World, process: Literal["down", "paused"]) -> list[Role]:
    """Return the roles of the nodes that a step put into this state."""
    brokers = world.brokers.items()
    found = [Role.of_broker(one) for one, state in brokers if state.process == process and not state.sick]
    if world.controller == process:
        found.insert(0, Role.of_step(str(world.controller_step)))
    return found


def _propose_resume(world: World, random: Random) -> StepSpec | None:
    frozen = _roles_in_state(world, "paused")
    return ResumeStep(target=random.choice(frozen), trigger=draw_delay(random)) if frozen else None


def _fit_healer(process: Literal["down", "paused"]) -> Fit:
    def fit(world: World, step: TargetStep) -> StepSpec | None:
        if is_at_controller(world, step):
            step = step.replace(target=Role.of_step(str(world.controller_step)))
        return with_time_trigger(step) if step.target in _roles_in_state(world, process) else None

    return fit


def _resume(world: World, step: ResumeStep) -> None:
    if is_at_controller(world, step):
        world.controller, world.controller_step = "up", None
    else:
        _broker_of(world, step).process = "up"


def _reaches_controller(world: World, role: Role) -> bool:
    """Whether a node can start.

    A broker that cannot reach the controller gives up after a while.
    """
    broker = world.id_of(role)
    return broker == CONTROLLER or (world.controller == "up" and not any(CONTROLLER in pair for pair in world.cut))


def _propose_start(world: World, random: Random) -> StepSpec | None:
    down = [role for role in _roles_in_state(world, "down") if _reaches_controller(world, role)]
    if not down:
        return None
    role = random.choice(down)
    broker = world.id_of(role)
    fenced = BrokerTrigger(broker=role, state="fenced")
    trigger = fenced if broker in world.brokers and random.random() < 0.7 else draw_delay(random)
    return StartStep(target=role, trigger=trigger)


def _fit_start(world: World, step: StartStep) -> StepSpec | None:
    """Return the start; it waits for the fencing of its broker if that is certain."""
    asked = step.trigger
    fitted = _fit_healer("down")(world, step)
    if not isinstance(fitted, StartStep) or not _reaches_controller(world, fitted.target):
        return None
    broker = world.brokers.get(world.id_of(fitted.target) or CONTROLLER)
    if isinstance(asked, BrokerTrigger) and broker is not None and broker.fencing and world.is_calm:
        return fitted.replace(trigger=BrokerTrigger(broker=fitted.target, state="fenced"), deadline_s=30.0)
    return fitted


def _start(world: World, step: StartStep) -> float:
    if is_at_controller(world, step):
        world.controller, world.controller_step = "up", None
        return 2.0
    broker = _broker_of(world, step)
    broker.process, broker.fencing, broker.frozen = "up", False, False
    broker.returning = isinstance(step.trigger, BrokerTrigger)
    return 1.0


def _restart(world: World, step: RestartStep) -> None:
    broker = _broker_of(world, step)
    broker.joined, broker.returning, broker.frozen = False, True, False
    _mark_ended(world, step)


def is_whole(world: World) -> bool:
    """Whether every broker is unfenced and every ISR can be full soon."""
    return world.is_calm and not world.moving and all(_can_stop(world, one) for one in world.brokers)


def _propose_rolling(world: World, random: Random) -> StepSpec | None:
    if not is_whole(world):
        return None
    modes: tuple[Literal["restart", "kill", "power-loss"], ...] = ("restart", "kill", "power-loss")
    mode = random.choice(modes)
    broker = random.choice(sorted(world.brokers))
    return RollingStep(mode=mode, target=Role.of_broker(broker), trigger=draw_delay(random))


def _fit_rolling(world: World, step: RollingStep) -> StepSpec | None:
    known = world.id_of(step.target) in world.brokers
    return with_time_trigger(step).replace(deadline_s=60.0) if known and is_whole(world) else None


NODE_KINDS: dict[StepKind, StepGenerator] = {
    **{
        kind: StepGenerator(propose=_propose(kind), fit=_fit(kind), apply=_take_down)
        for kind in TAKES_DOWN
        if KINDS[kind].weight
    },
    "pause": StepGenerator(propose=_propose("pause"), fit=_fit("pause"), apply=_pause),
    "resume": StepGenerator(propose=_propose_resume, fit=_fit_healer("paused"), apply=_resume),
    "start": StepGenerator(propose=_propose_start, fit=_fit_start, apply=_start),
    "restart": StepGenerator(propose=_propose("restart"), fit=_fit("restart"), apply=_restart),
    "rolling": StepGenerator(propose=_propose_rolling, fit=_fit_rolling),
}
