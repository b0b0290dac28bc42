"""Draws a whole scenario from a seed; its schedule is valid and ends healed.

A scenario has a cluster, a topic, clients and a schedule. Steps are drawn, or given steps are fitted to the state of
the cluster, and everything is healed at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from random import Random

import msgspec

from ebbtide.scenario.model import (
    Acks,
    ClusterSpec,
    ConsumerSpec,
    Isolation,
    Prediction,
    ProducerSpec,
    Scenario,
    TopicSpec,
)
from ebbtide.scenario.steps.admin import DeleteTopicStep
from ebbtide.scenario.steps.disk import MendDiskStep
from ebbtide.scenario.steps.network import HealStep
from ebbtide.scenario.steps.process import ResumeStep, StartStep
from ebbtide.scenario.steps.step import StepSpec, WaitStep
from ebbtide.scenario.steps.table import HEALED_BY, HEALERS, KINDS, TAKES_DOWN, StepKind
from ebbtide.scenario.steps.wire import ReleaseStep
from ebbtide.scenario.triggers import AckedTrigger
from ebbtide.scenario.words import Role
from harness.random.kind import StepGenerator
from harness.random.links import LINK_KINDS, RULE_KINDS
from harness.random.nodes import NODE_KINDS
from harness.random.quorum import QUORUM_KINDS, draw_quorum, first_voters
from harness.random.replication import healthy_replication
from harness.random.requests import REQUEST_KINDS, SPARE_TOPIC, TOPIC
from harness.random.upgrades import UPGRADE, upgrade_target
from harness.random.volumes import MOVE_REPLICA, VOLUME_KINDS, draw_log_dirs
from harness.random.waits import WAIT
from harness.random.world import World, healthy_world

STEPS = 12
STEPS_MAX = 200
_SHARE_OF_DYNAMIC_QUORUMS = 0.15
_SHARE_OF_SEVERAL_DIRECTORIES = 0.2
_ISOLATIONS: tuple[Isolation, ...] = ("read_uncommitted", "read_uncommitted", "read_committed")
_PREDICTIONS = (
    Prediction(
        kafka=">=3.3",
        clause="KIP-966, KIP-704, KIP-903: whatever fails, the protocol allows every transition of a partition, and "
        "every loss of committed records has a cause that it allows",
    ),
)

GENERATORS: dict[StepKind, StepGenerator] = {
    **NODE_KINDS,
    **VOLUME_KINDS,
    **LINK_KINDS,
    **RULE_KINDS,
    **REQUEST_KINDS,
    **QUORUM_KINDS,
    "move-replica": MOVE_REPLICA,
    "upgrade": UPGRADE,
    "wait": WAIT,
}

FIRST_ACKED = 200
_HEAL_EARLIER_S = 10.0
"""After an outage of this length, healing steps are drawn twice as often.

So are failures while a broker returns: it truncates its log then, and fetches what it lacks (KIP-101, KIP-279).
"""


def build_steps(world: World, slots: Iterable[StepSpec | None], random: Random) -> tuple[StepSpec, ...]:
    """Return the valid steps of `slots`, fitted to the cluster; None draws a step.

    The schedule begins with a wait until clients are at work, and ends with everything healed. Changes `world`.
    """
    steps: list[StepSpec] = [WaitStep(trigger=AckedTrigger(records=FIRST_ACKED), deadline_s=60.0)]
    for slot in slots:
        if world.is_outage_long:
            _append(world, steps, _healing_steps(world)[:1])
        step = _fit(world, slot) if slot is not None else _draw_step(world, random)
        if step is not None:
            _append(world, steps, [step])
    while healing := _healing_steps(world):
        _append(world, steps, healing[:1])
    return tuple(steps)


def without_frame(steps: Iterable[StepSpec]) -> list[StepSpec]:
    """Return the steps without the first wait and the healing steps at the end."""
    slots = [step for step in steps if not isinstance(step.trigger, AckedTrigger)]
    while slots and slots[-1].step in HEALERS:
        slots.pop()
    return slots


def _append(world: World, steps: list[StepSpec], taken: Iterable[StepSpec]) -> None:
    for step in taken:
        fitted = _fit(world, step)
        assert fitted is not None, f"an invalid {step.step} was about to be added to the schedule"
        GENERATORS[fitted.step].carry_out(world, fitted)
        steps.append(fitted)


def _fit(world: World, step: StepSpec) -> StepSpec | None:
    if step.step in world.without:
        return None
    bare = step.replace(name=None) if step.name is not None else step
    return GENERATORS[step.step].fit(world, bare)


def _draw_step(world: World, random: Random) -> StepSpec | None:
    kinds: list[StepKind] = sorted(GENERATORS)
    for _ in range(20):
        kind = random.choices(kinds, [_weight(world, one) for one in kinds])[0]
        step = GENERATORS[kind].propose(world, random)
        fitted = _fit(world, step) if step is not None else None
        if fitted is not None:
            return fitted
    return None


def _weight(world: World, kind: StepKind) -> float:
    since_s = world.outage_since_s
    long_broken = since_s is not None and world.used_s - since_s > _HEAL_EARLIER_S
    hurry = (kind in HEALERS and long_broken) or (kind == "upgrade" and world.is_mixed)
    second = kind in TAKES_DOWN and any(broker.returning for broker in world.brokers.values())
    return KINDS[kind].weight * (2.0 if hurry or second else 1.0)


def _healing_steps(world: World) -> list[StepSpec]:
    """Return the steps that heal everything, in a valid order.

    Connections come before nodes, and volumes before starts.
    """
    steps: list[StepSpec] = []
    if world.rules:
        steps.append(ReleaseStep(optional=True))
    if world.cut or world.slowed:
        steps.append(HealStep())
    if world.controller != "up":
        kind = ResumeStep if world.controller == "paused" else StartStep
        steps.append(kind(target=Role.of_step(str(world.controller_step))))
    brokers = world.brokers.items()
    steps += [ResumeStep(target=Role.of_broker(one)) for one, at in brokers if at.process == "paused"]
    steps += [MendDiskStep(target=Role.of_broker(one)) for one, at in brokers if at.sick]
    steps += [StartStep(target=Role.of_broker(one)) for one, at in brokers if at.process == "down"]
    return steps


def draw(
    seed: int,
    *,
    kafka: str,
    features: Mapping[str, int] | None = None,
    steps: int = STEPS,
    without: Collection[StepKind] = (),
) -> Scenario:
    """Draw a scenario for one release from `seed`.

    The same arguments give the same scenario. `features`: the feature levels to format with. `steps`: how many
    steps are drawn; the first wait and the healing steps at the end come on top. `without`: kinds of step not to
    draw. Raises `UsageError` for an unknown release.
    """
    random = Random(seed)
    setting = _draw_setting(random, seed, kafka, features or {})
    return with_steps(setting, [None] * steps, random, without=without)


def with_steps(
    setting: Scenario, slots: list[StepSpec | None], random: Random, *, without: Collection[StepKind] = ()
) -> Scenario:
    """Return `setting` with the valid steps of `slots`.

    `harness.random.drawing.build_steps` makes the steps valid.
    """
    steps = build_steps(world_of(setting, without), slots, random)
    topics = {TOPIC: setting.topics[TOPIC]}
    if any(isinstance(step, DeleteTopicStep) for step in steps):
        topics[SPARE_TOPIC] = TopicSpec(replication_factor=1, min_isr=1)
    return msgspec.structs.replace(setting, topics=topics, steps=steps)


def world_of(setting: Scenario, without: Collection[StepKind] = ()) -> World:
    """Return the healthy cluster of a random scenario, before its first step."""
    topic = setting.topics[TOPIC]
    replication = healthy_replication(
        {f"{TOPIC}-{number}": replicas for number, replicas in enumerate(topic.assignment)},
        brokers=setting.cluster.brokers,
        kafka=setting.kafka[0],
        features=setting.cluster.features,
        min_isr=topic.min_isr,
        unclean=topic.config.get("unclean.leader.election.enable") == "true",
    )
    return healthy_world(
        replication,
        release=setting.kafka[0],
        upgrade_to=upgrade_target(setting.kafka[0], setting.cluster.features),
        log_dirs=setting.cluster.log_dirs or 1,
        voters=first_voters(setting.cluster),
        without=frozenset(without) | {kind for kind, healer in HEALED_BY.items() if healer in without},
    )


def _draw_setting(random: Random, seed: int, kafka: str, features: Mapping[str, int]) -> Scenario:
    brokers = 3 if random.random() < 0.85 else 4
    partitions = random.choice((1, 1, 2))
    assignment = tuple(tuple(random.sample(range(1, brokers + 1), 3)) for _ in range(partitions))
    quorum = draw_quorum(random, kafka, features) if random.random() < _SHARE_OF_DYNAMIC_QUORUMS else None
    log_dirs = draw_log_dirs(random, kafka, features) if random.random() < _SHARE_OF_SEVERAL_DIRECTORIES else None
    controllers = 1 if random.random() < 0.9 else 3
    return Scenario(
        name=f"random-{seed}",
        title=f"A random schedule, drawn from seed {seed}",
        description=f"Everything is drawn from seed {seed}. The run is checked against the protocol's rules.",
        kafka=(kafka,),
        cluster=ClusterSpec(
            controllers=controllers if quorum is None else quorum.controllers,
            brokers=brokers,
            features=dict(features),
            session_timeout_s=random.choice((2.0, 3.0)),
            replica_lag_max_s=random.choice((2.0, 4.0)),
            quorum=None if quorum is None else quorum.quorum,
            initial_voters=None if quorum is None else quorum.initial_voters,
            log_dirs=log_dirs,
        ),
        topics={
            TOPIC: TopicSpec(
                partitions=partitions,
                replication_factor=3,
                min_isr=random.choices((2, 3, 1), (7, 2, 1))[0],
                assignment=assignment,
                config=_draw_config(random),
            )
        },
        producers=_draw_producers(random),
        consumers=_draw_consumers(random),
        predictions=_PREDICTIONS,
        settle_s=90.0,
    )


def _draw_config(random: Random) -> dict[str, str]:
    """Draw a topic's settings: other elections, logs of many segments, logs that are flushed before each ack."""
    return {
        config: value
        for config, value, share in (
            ("unclean.leader.election.enable", "true", 0.1),
            ("segment.ms", "1000", 0.25),
            ("flush.messages", "1", 0.1),
        )
        if random.random() < share
    }


def _draw_producers(random: Random) -> tuple[ProducerSpec, ...]:
    """Draw a producer with acks=all, and sometimes a second one with acks=0 or acks=1."""

    def producer(id: int, acks: Acks = "all") -> ProducerSpec:
        return ProducerSpec(id=id, topic=TOPIC, acks=acks, rate_per_s=random.choice((100.0, 300.0)))

    first, kind = producer(1), random.random()
    if kind < 0.25:
        first = msgspec.structs.replace(first, idempotent=True)
    elif kind < 0.4:
        first = msgspec.structs.replace(first, transactional=True, txn_records=20, abort_every=5)
    weaker: tuple[Acks, ...] = ("0", "1", "1")
    return (first, producer(2, random.choice(weaker))) if random.random() < 0.4 else (first,)


def _draw_consumers(random: Random) -> tuple[ConsumerSpec, ...]:
    isolation = random.choice(_ISOLATIONS)
    if random.random() < 0.3:
        return ()
    group = "g" if random.random() < 0.4 else None
    return (ConsumerSpec(id=1, topics=(TOPIC,), isolation=isolation, group=group),)
