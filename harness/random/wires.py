"""Generates steps that arm wire rules, and steps that release them.

All are optional: whether a matching request is sent depends on the steps before.
"""

from __future__ import annotations

from random import Random

from ebbtide.scenario.roles import Role
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.steps.table import KINDS, STEP_TYPES, WIRE_KINDS, StepKind
from ebbtide.scenario.steps.wire import DirectedRuleStep, HoldRequestStep, ReleaseStep, RuleStep
from ebbtide.scenario.triggers import after
from harness.random.kind import (
    Fit,
    Propose,
    StepGenerator,
    draw_broker,
    draw_delay,
    draw_durations,
    step_on,
    with_time_trigger,
)
from harness.random.world import CLIENTS, CONTROLLER, World

_RULES_MAX = 2
_OF_BROKERS = ("Fetch", "Fetch", "AlterPartition", "AlterPartition", "BrokerHeartbeat")
_OF_CLIENTS = ("Produce", "Produce", "Metadata")


def _propose(kind: StepKind) -> Propose:
    type_ = STEP_TYPES[kind]

    def propose(world: World, random: Random) -> StepSpec | None:
        running = [one for one, state in world.brokers.items() if state.process == "up"]
        if len(world.rules) >= _RULES_MAX or not running:
            return None
        at_clients = random.random() < 0.25
        broker = draw_broker(world, random, running)
        assert broker is not None, "somebody runs"
        target = Role("clients") if at_clients else Role.of_broker(broker)
        api, trigger = random.choice(_OF_CLIENTS if at_clients else _OF_BROKERS), draw_delay(random)
        keys: dict[str, object] = {}
        # A client that gets no answer sends again, which shows how Kafka knows a batch that it already has.
        if issubclass(type_, DirectedRuleStep) and random.random() < (0.6 if at_clients else 0.3):
            keys["direction"] = "response"
        if not at_clients and api == "Fetch" and random.random() < 0.7:
            others = [Role("controllers"), *(Role.of_broker(one) for one in world.brokers if one != broker)]
            keys["to"] = (random.choice(others),)
        keys |= draw_durations(kind, random)
        # A hold lasts until a release ends it.
        if not issubclass(type_, HoldRequestStep):
            keys["times"] = random.randint(1, 5)
        return step_on(kind, target, trigger, api=api, optional=True, **keys)

    return propose


def _fit(world: World, step: RuleStep) -> StepSpec | None:
    who = world.id_of(step.target)
    known = all(world.id_of(role) is not None for role in step.to)
    if who is None or not known or len(world.rules) >= _RULES_MAX:
        return None
    if who not in (CLIENTS, CONTROLLER) and world.brokers[who].process != "up":
        return None
    return with_time_trigger(step).replace(optional=True)


def _arm(world: World, step: RuleStep) -> float:
    who = world.id_of(step.target)
    # A rule that only delays or drops a few requests cuts no node off, but it can hold up the controller.
    api = step.api if isinstance(step, HoldRequestStep) else f"some {step.api}"
    world.rules.append((who if who is not None else CLIENTS, api))
    return 0.5


def _propose_release(world: World, random: Random) -> StepSpec | None:
    if not world.rules:
        return None
    return ReleaseStep(trigger=after(random.choice(("500ms", "1s", "2s", "4s"))), optional=True)


def _fit_release(world: World, step: ReleaseStep) -> StepSpec | None:
    return with_time_trigger(step).replace(target=None, optional=True) if world.rules else None


def _release(world: World, _step: ReleaseStep) -> float:
    world.rules.clear()
    return 2.0


_FIT: Fit = _fit
RULE_KINDS: dict[StepKind, StepGenerator] = {
    **{kind: StepGenerator(propose=_propose(kind), fit=_FIT, apply=_arm) for kind in WIRE_KINDS if KINDS[kind].weight},
    "release": StepGenerator(propose=_propose_release, fit=_fit_release, apply=_release),
}
