"""Draws a whole scenario from a seed; its schedule is valid and ends healed.

A scenario has a cluster, a topic, clients and a schedule.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.steps.table import HEALED_BY, StepKind
from harness.random.quorum import draw_quorum, first_voters
from harness.random.replication import healthy_replication
from harness.random.requests import SPARE_TOPIC, TOPIC
from harness.random.schedule import build_steps
from harness.random.upgrades import upgrade_target
from harness.random.volumes import draw_log_dirs
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

    `harness.random.schedule.build_steps` makes the steps valid.
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
