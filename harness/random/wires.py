"""Generates steps that arm wire rules, and steps that release them.

All are optional: whether a matching request is sent depends on the steps before.
"""

from __future__ import annotations

from random import Random

import msgspec

from ebbtide.scenario.model import StepSpec, Trigger
from ebbtide.scenario.steps.table import KINDS, WIRE_KINDS, StepKind
from ebbtide.scenario.words import Duration
from harness.random.kind import Fit, Propose, StepGenerator, broker_role, draw_broker, draw_delay, with_time_trigger
from harness.random.world import CLIENTS, CONTROLLER, World

_RULES_MAX = 2
_OF_BROKERS = ("Fetch", "Fetch", "AlterPartition", "AlterPartition", "BrokerHeartbeat")
_OF_CLIENTS = ("Produce", "Produce", "Metadata")
_STOPS = frozenset({"hold-request"})


def _propose(kind: StepKind) -> Propose:
    def propose(world: World, random: Random) -> StepSpec | None:
        running = [one for one, state in world.brokers.items() if state.process == "up"]
        if len(world.rules) >= _RULES_MAX or not running:
            return None
        at_clients = random.random() < 0.15
        broker = draw_broker(world, random, running)
        assert broker is not None, "somebody runs"
        step = StepSpec(
            step=kind,
            target="clients" if at_clients else broker_role(broker),
            api=random.choice(_OF_CLIENTS if at_clients else _OF_BROKERS),
            trigger=draw_delay(random),
            optional=True,
        )
        if kind != "duplicate-request" and random.random() < 0.3:
            step = msgspec.structs.replace(step, direction="response")
        if not at_clients and step.api == "Fetch" and random.random() < 0.7:
            others = ["controllers", *(broker_role(one) for one in world.brokers if one != broker)]
            step = msgspec.structs.replace(step, to=(random.choice(others),))
        if kind == "delay-request":
            step = msgspec.structs.replace(step, delay=Duration(random.choice(("200ms", "1s", "2500ms"))))
        if kind != "hold-request":
            step = msgspec.structs.replace(step, times=random.randint(1, 5))
        return step

    return propose


def _fit(world: World, step: StepSpec) -> StepSpec | None:
    who = world.id_of(step.target)
    known = all(world.id_of(role) is not None for role in step.to)
    if who is None or not known or len(world.rules) >= _RULES_MAX:
        return None
    if who not in (CLIENTS, CONTROLLER) and world.brokers[who].process != "up":
        return None
    return msgspec.structs.replace(with_time_trigger(step), optional=True)


def _arm(world: World, step: StepSpec) -> float:
    who = world.id_of(step.target)
    # A rule that only delays or drops a few requests cuts no node off, but it can hold up the controller.
    api = step.api or ""
    world.rules.append((who if who is not None else CLIENTS, api if step.step in _STOPS else f"some {api}"))
    return 0.5


def _propose_release(world: World, random: Random) -> StepSpec | None:
    if not world.rules:
        return None
    return StepSpec(
        step="release", trigger=Trigger(after=Duration(random.choice(("500ms", "1s", "2s", "4s")))), optional=True
    )


def _fit_release(world: World, step: StepSpec) -> StepSpec | None:
    return msgspec.structs.replace(with_time_trigger(step), target=None, optional=True) if world.rules else None


def _release(world: World, step: StepSpec) -> float:
    world.rules.clear()
    return 2.0


_FIT: Fit = _fit
RULE_KINDS: dict[StepKind, StepGenerator] = {
    **{kind: StepGenerator(propose=_propose(kind), fit=_FIT, apply=_arm) for kind in WIRE_KINDS if KINDS[kind].weight},
    "release": StepGenerator(propose=_propose_release, fit=_fit_release, apply=_release),
}
