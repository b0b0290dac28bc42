"""Generates steps that cut or slow connections, or arm wire rules, and steps that heal and release them.

Those on wire rules are optional: whether a matching request is sent depends on the steps before.
"""

from __future__ import annotations

from itertools import permutations
from random import Random

from ebbtide.scenario.steps.network import (
    BetweenStep,
    FlapStep,
    HealStep,
    IsolateStep,
    LimitBandwidthStep,
    PartitionStep,
)
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.steps.table import KINDS, STEP_TYPES, WIRE_KINDS, StepKind
from ebbtide.scenario.steps.wire import DirectedRuleStep, HoldRequestStep, ReleaseStep, RuleStep
from ebbtide.scenario.triggers import after
from ebbtide.scenario.words import Duration, Rate, Role
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

_ROLES = {CONTROLLER: Role("controllers"), CLIENTS: Role("clients")}
_CUTS_MAX = 5
"""No further cut is drawn after so many pairs are cut in both directions: it would change little."""


def _role_of(one: int) -> Role:
    return _ROLES.get(one) or Role.of_broker(one)


def pairs_of(world: World, step: BetweenStep | IsolateStep) -> set[tuple[int, int]]:
    """Return the pairs (sender, receiver) that a step of this family cuts or slows."""
    if isinstance(step, IsolateStep):
        target = world.ids_of((step.target,))
        others = world.ids_of(step.from_) if step.from_ else set(world.all_nodes())
        groups = [target, others - target]
    elif step.groups:
        groups = [world.ids_of(group) for group in step.groups]
    else:
        return {(one, other) for one in world.ids_of(step.from_) for other in world.ids_of(step.to) if one != other}
    return {
        (one, other)
        for here, there in permutations(groups, 2)
        for one in here
        for other in there
        # All controllers count as one node here, so a cut among them is no pair.
        if one != other
    }


def _draw_groups(world: World, random: Random) -> tuple[tuple[Role, ...], ...]:
    """Draw two sides: one or two brokers, and the other brokers.

    The sides may also have controllers and clients.
    """
    brokers = sorted(world.brokers)
    first = draw_broker(world, random, brokers) or brokers[0]
    here = {first}
    if len(brokers) > 2 and random.random() < 0.3:
        here.add(random.choice([one for one in brokers if one != first]))
    there = [one for one in brokers if one not in here]
    for other, share in ((CONTROLLER, 0.5), (CLIENTS, 0.4)):
        if random.random() < share:
            there.append(other)
    return (tuple(map(_role_of, sorted(here))), tuple(map(_role_of, there)))


def _draw_sides(world: World, random: Random) -> tuple[tuple[Role, ...], tuple[Role, ...]]:
    """Draw a one-way cut between a broker and another node.

    Returns the senders and the receivers.
    """
    broker = draw_broker(world, random, sorted(world.brokers)) or 1
    other = random.choice([one for one in world.all_nodes() if one != broker])
    sides = (_role_of(broker),), (_role_of(other),)
    return sides if random.random() < 0.5 else sides[::-1]


def _with_sides(step: BetweenStep, world: World, random: Random) -> StepSpec:
    if random.random() < 0.7:
        return step.replace(groups=_draw_groups(world, random))
    one, other = _draw_sides(world, random)
    return step.replace(from_=one, to=other)


def _has_room_for_cut(world: World) -> bool:
    return len(world.cut) < 2 * _CUTS_MAX and not world.slowed


def _propose_partition(world: World, random: Random) -> StepSpec | None:
    if not _has_room_for_cut(world):
        return None
    return _with_sides(PartitionStep(trigger=draw_delay(random)), world, random)


def _propose_isolate(world: World, random: Random) -> StepSpec | None:
    if not _has_room_for_cut(world):
        return None
    broker = draw_broker(world, random, sorted(world.brokers)) or 1
    others = tuple(Role.of_broker(one) for one in sorted(world.brokers) if one != broker)
    controllers, clients = (_ROLES[CONTROLLER],), (_ROLES[CLIENTS],)
    from_ = random.choice(((), (), controllers, controllers, others, clients))
    return IsolateStep(target=Role.of_broker(broker), from_=from_, trigger=draw_delay(random))


def _fit_cut(world: World, step: BetweenStep | IsolateStep) -> StepSpec | None:
    """Return the cut if it cuts a new pair and all its nodes exist."""
    pairs = pairs_of(world, step)
    named = [*step.from_]
    if isinstance(step, IsolateStep):
        named.append(step.target)
    else:
        named += [*step.to, *(role for group in step.groups for role in group)]
    known = all(world.id_of(role) is not None for role in named)
    return with_time_trigger(step) if known and _has_room_for_cut(world) and pairs - world.cut else None


def _cut(world: World, step: BetweenStep | IsolateStep) -> None:
    world.cut |= pairs_of(world, step)


def _propose_flap(world: World, random: Random) -> StepSpec | None:
    if world.cut or world.slowed:
        return None
    step = FlapStep(
        times=random.randint(1, 3),
        period=Duration(random.choice(("1s", "2s", "4s"))),
        trigger=draw_delay(random),
    )
    return _with_sides(step, world, random)


def _fit_flap(world: World, step: BetweenStep) -> StepSpec | None:
    return None if world.cut or world.slowed else _fit_cut(world, step)


def _flap(_world: World, step: FlapStep) -> float:
    return step.times * (step.period.seconds + 1.0)


def _propose_limit(world: World, random: Random) -> StepSpec | None:
    if world.cut or world.slowed:
        return None
    rate = Rate(random.choice(("64kbit", "256kbit", "1mbit")))
    return _with_sides(LimitBandwidthStep(rate=rate, trigger=draw_delay(random)), world, random)


def _limit(world: World, _step: LimitBandwidthStep) -> None:
    world.slowed = True


def _propose_heal(world: World, random: Random) -> StepSpec | None:
    if not world.cut and not world.slowed:
        return None
    return HealStep(trigger=after(random.choice(("500ms", "1s", "3s", "5s"))))


def _fit_heal(world: World, step: HealStep) -> StepSpec | None:
    return with_time_trigger(step) if world.cut or world.slowed else None


def _heal(world: World, _step: HealStep) -> None:
    world.cut.clear()
    world.slowed = False


LINK_KINDS: dict[StepKind, StepGenerator] = {
    "partition": StepGenerator(propose=_propose_partition, fit=_fit_cut, apply=_cut),
    "isolate": StepGenerator(propose=_propose_isolate, fit=_fit_cut, apply=_cut),
    "flap": StepGenerator(propose=_propose_flap, fit=_fit_flap, apply=_flap),
    "limit-bandwidth": StepGenerator(propose=_propose_limit, fit=_fit_flap, apply=_limit),
    "heal": StepGenerator(propose=_propose_heal, fit=_fit_heal, apply=_heal),
}


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


def _arm(world: World, step: RuleStep) -> None:
    who = world.id_of(step.target)
    # A rule that only delays or drops a few requests cuts no node off, but it can hold up the controller.
    api = step.api if isinstance(step, HoldRequestStep) else f"some {step.api}"
    world.rules.append((who if who is not None else CLIENTS, api))


def _propose_release(world: World, random: Random) -> StepSpec | None:
    if not world.rules:
        return None
    return ReleaseStep(trigger=after(random.choice(("500ms", "1s", "2s", "4s"))), optional=True)


def _fit_release(world: World, step: ReleaseStep) -> StepSpec | None:
    return with_time_trigger(step).replace(target=None, optional=True) if world.rules else None


def _release(world: World, _step: ReleaseStep) -> None:
    world.rules.clear()


_FIT: Fit = _fit
RULE_KINDS: dict[StepKind, StepGenerator] = {
    **{kind: StepGenerator(propose=_propose(kind), fit=_FIT, apply=_arm) for kind in WIRE_KINDS if KINDS[kind].weight},
    "release": StepGenerator(propose=_propose_release, fit=_fit_release, apply=_release),
}
