"""Validates a scenario file beyond its types.

It checks cluster, topics, clients, and the steps as a whole. Predictions are checked where the file is about to run
(`validate_predictions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from ebbtide.errors import UsageError
from ebbtide.scenario.internal_topics import INTERNAL_TOPICS, PARTITIONS_PROPERTIES
from ebbtide.scenario.model import MAX_BROKERS, ClusterSpec, Scenario, TopicSpec
from ebbtide.scenario.references import EarlierNames, limit, limit_field, put_at
from ebbtide.scenario.safety import validate_topic_name
from ebbtide.scenario.steps.disk import ReadOnlyStep
from ebbtide.scenario.triggers import HeldTrigger
from ebbtide.scenario.validate_admin import validate_users
from ebbtide.scenario.validate_clients import validate_clients
from ebbtide.scenario.validate_order import validate_order, validate_starts
from ebbtide.scenario.validate_quorum import validate_log_dirs, validate_quorum, validate_voter_steps
from ebbtide.scenario.validate_settings import validate_settings
from ebbtide.scenario.validate_steps import validate_step
from ebbtide.scenario.validate_triggers import validate_held
from ebbtide.scenario.validate_upgrades import FEATURES, validate_feature_name, validate_features, validate_upgrades


def validate(scenario: Scenario, *, to_run: bool = True) -> Iterator[UsageError]:
    """Return every problem of a scenario that its types cannot show.

    The scenario's names and releases are valid (`validate_words`). The problems are references, ranges and exclusive
    keys, each at its own key. Without `to_run`, problems are left out that the scenario of a record may have, and that
    stop a run of it.
    """
    if not scenario.kafka:
        yield UsageError("no release to run", where="kafka", got="[]", allowed="at least one, e.g. ['3.9.1']")
    yield from _cluster(scenario.cluster, scenario.kafka)
    if to_run:
        yield from _formatting(scenario.cluster, scenario.kafka)
    if not 1 <= scenario.cluster.brokers <= MAX_BROKERS:
        # A number of brokers that no cluster has says nothing of topics and steps.
        scenario = replace(scenario, cluster=replace(scenario.cluster, brokers=MAX_BROKERS))
    yield from validate_log_dirs(scenario)
    yield from limit("settle_s", scenario.settle_s, 1)
    yield from _topics(scenario)
    yield from validate_clients(scenario)
    yield from _steps(scenario)
    yield from validate_settings(scenario, to_run=to_run)
    if to_run:
        yield from validate_starts(scenario)
        yield from validate_users(scenario)
        yield from validate_upgrades(scenario)


def _cluster(cluster: ClusterSpec, releases: Sequence[str]) -> Iterator[UsageError]:
    yield from validate_quorum(cluster, releases)
    for name, level in cluster.features.items():
        yield from validate_feature_name(name, f"cluster.features.{name}")
        yield from limit(f"cluster.features.{name}", level, 0)
    yield from limit_field("cluster", cluster, "brokers", 1, MAX_BROKERS)
    yield from limit_field("cluster", cluster, "session_timeout_s", 1, 60)
    yield from limit_field("cluster", cluster, "replica_lag_max_s", 1, 60)


def _formatting(cluster: ClusterSpec, releases: Sequence[str]) -> Iterator[UsageError]:
    """Report levels that a release cannot be formatted with; what no release can have is reported before.

    A record of a build names the build's three numbers, and may have levels that the release of these lacks.
    """
    if any(level < 0 or name not in FEATURES for name, level in cluster.features.items()):
        return
    for kafka in releases if cluster.formed_on is None else (cluster.formed_on,):
        yield from put_at("cluster.features", partial(validate_features, kafka, cluster))


def _topics(scenario: Scenario) -> Iterator[UsageError]:
    if not scenario.topics:
        yield UsageError("no topic", where="topics", allowed="at least one [topics.NAME]")
    for name, topic in scenario.topics.items():
        yield from validate_topic(name, topic, f"topics.{name}", scenario.cluster.brokers)
    for topic_name, name in PARTITIONS_PROPERTIES.items():
        if topic_name in scenario.topics and name in scenario.cluster.broker_properties:
            yield UsageError(
                "a property that a topic of the scenario rules out",
                where="cluster.broker_properties",
                got=name,
                allowed=f"no such property beside [topics.{topic_name}], which has one partition",
            )


def validate_topic(name: str, topic: TopicSpec, where: str, brokers: int) -> Iterator[UsageError]:
    """Report what is impossible for a topic on a cluster of so many brokers."""
    yield from validate_topic_name(name, where)
    if name in INTERNAL_TOPICS:
        yield from limit_field(
            where, topic, "partitions", 1, 1, why="on Ebbtide's clusters Kafka's own topics have one"
        )
    yield from limit_field(where, topic, "partitions", 1, 100)
    yield from limit_field(where, topic, "replication_factor", 1, brokers, why="the number of brokers")
    yield from limit_field(where, topic, "min_isr", 1)
    yield from _assignment(topic, f"{where}.assignment", brokers)
    if "min.insync.replicas" in topic.config:
        yield UsageError(
            "a config that has a key of its own",
            where=f"{where}.config",
            got="min.insync.replicas",
            allowed="min_isr in the topic, and any other config here",
        )


def _assignment(topic: TopicSpec, where: str, brokers: int) -> Iterator[UsageError]:
    fits = len(topic.assignment) == topic.partitions and all(
        len(replicas) == len(set(replicas)) == topic.replication_factor and all(1 <= one <= brokers for one in replicas)
        for replicas in topic.assignment
    )
    if topic.assignment and not fits:
        yield UsageError(
            "not an assignment of this topic",
            where=where,
            got=str([list(replicas) for replicas in topic.assignment]),
            allowed=f"{topic.partitions} lists of {topic.replication_factor} different broker ids from 1 to {brokers}",
        )


def _steps(scenario: Scenario) -> Iterator[UsageError]:
    names = EarlierNames()
    for index, step in enumerate(scenario.steps):
        where = f"steps[{index}]"
        yield from validate_step(scenario, step, where, names)
        if isinstance(step.trigger, HeldTrigger):
            yield from validate_held(step.trigger, scenario.steps[:index], f"{where}.trigger.held")
        if isinstance(step, ReadOnlyStep) and scenario.cluster.file_system == "xfs":
            yield UsageError("xfs cannot be made read-only in this way", where=where, allowed="file_system = 'ext4'")
        if step.name in names.known:
            got = repr(step.name)
            yield UsageError("name taken by an earlier step", where=f"{where}.name", got=got, allowed="another")
        names = names.with_step(step)
    yield from validate_order(scenario)
    yield from validate_voter_steps(scenario)
