"""What the types of a scenario file cannot say of cluster, topics, clients, predictions, and the steps as a whole."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from ebbtide.errors import UsageError
from ebbtide.releases.known import parse_version
from ebbtide.scenario.admin_meaning import feature_known
from ebbtide.scenario.client_meaning import clients
from ebbtide.scenario.feature_meaning import check_features
from ebbtide.scenario.model import ClusterSpec, Scenario, TopicSpec
from ebbtide.scenario.order import order
from ebbtide.scenario.property_meaning import property_meaning
from ebbtide.scenario.references import MAX_BROKERS, Wrong, brokers_of, limit, put_at
from ebbtide.scenario.safety import check_name, topic_name
from ebbtide.scenario.step_meaning import step_meaning
from ebbtide.scenario.wire_meaning import held_trigger


def meaning(scenario: Scenario, wrong: Wrong) -> Iterator[UsageError]:
    """What the types cannot say: references, ranges, exclusive keys.

    A problem is named at the key that it is about. Problems at keys that are `wrong` are the caller's to drop;
    those that rest on other keys, which are `wrong`, are not found.
    """
    yield from _cluster(scenario)
    yield from _topics(scenario, wrong)
    yield from clients(scenario, wrong)
    names: set[str] = set()
    for index, step in enumerate(scenario.steps):
        yield from step_meaning(scenario, step, f"steps[{index}]", names, wrong)
        if step.trigger is not None and step.trigger.held is not None:
            yield from held_trigger(step.trigger.held, scenario.steps[:index], f"steps[{index}].trigger.held")
        if step.name in names:
            yield UsageError(
                "name taken by an earlier step", where=f"steps[{index}].name", got=repr(step.name), allowed="another"
            )
        if step.name is not None:
            names.add(step.name)
    yield from order(
        scenario.steps,
        lambda index: any(wrong(f"steps[{index}].{key}") for key in ("step", "target")),
        one_controller=scenario.cluster.controllers == 1 and not wrong("cluster.controllers"),
    )
    if not wrong("predictions"):
        yield from _predictions(scenario)


def _cluster(scenario: Scenario) -> Iterator[UsageError]:
    yield from put_at("name", partial(check_name, scenario.name))
    if not scenario.kafka:
        yield UsageError("no release to run", where="kafka", got="[]", allowed="at least one, e.g. ['3.9.1']")
    for index, text in enumerate(scenario.kafka):
        yield from put_at(f"kafka[{index}]", partial(parse_version, text))
    cluster = scenario.cluster
    if cluster.controllers not in (1, 3):
        yield UsageError(
            "not a quorum size", where="cluster.controllers", got=str(cluster.controllers), allowed="1 or 3"
        )
    yield from property_meaning(cluster)
    for name, level in cluster.features.items():
        yield from feature_known(name, f"cluster.features.{name}")
        yield from limit(f"cluster.features.{name}", level, 0)
    if all(level >= 0 for level in cluster.features.values()):
        for text in scenario.kafka:
            yield from _features(text, cluster)
    yield from limit("cluster.brokers", cluster.brokers, 1, MAX_BROKERS)
    yield from limit("cluster.session_timeout_s", cluster.session_timeout_s, 1, 60)
    yield from limit("cluster.replica_lag_max_s", cluster.replica_lag_max_s, 1, 60)
    yield from limit("settle_s", scenario.settle_s, 1)


def _features(kafka: str, cluster: ClusterSpec) -> Iterator[UsageError]:
    with contextlib.suppress(UsageError):
        parse_version(kafka)
        yield from put_at("cluster.features", partial(check_features, kafka, cluster))


def _topics(scenario: Scenario, wrong: Wrong) -> Iterator[UsageError]:
    if not scenario.topics:
        yield UsageError("no topic", where="topics", allowed="at least one [topics.NAME]")
    for name, topic in scenario.topics.items():
        yield from topic_meaning(name, topic, f"topics.{name}", brokers_of(scenario, wrong), wrong)


def topic_meaning(name: str, topic: TopicSpec, where: str, brokers: int, wrong: Wrong) -> Iterator[UsageError]:
    """What cannot be of one topic on a cluster of so many brokers."""
    yield from topic_name(name, where)
    yield from limit(f"{where}.partitions", topic.partitions, 1, 100)
    yield from limit(f"{where}.replication_factor", topic.replication_factor, 1, brokers)
    yield from limit(f"{where}.min_isr", topic.min_isr, 1)
    if topic.assignment and not wrong(f"{where}.assignment"):
        yield from _assignment(topic, f"{where}.assignment", brokers)
    if "min.insync.replicas" in topic.config:
        yield UsageError(
            "a config that has a key of its own",
            where=f"{where}.config",
            got="min.insync.replicas",
            allowed="min_isr in the topic, and any other config here",
        )


def _assignment(topic: TopicSpec, where: str, brokers: int) -> Iterator[UsageError]:
    wanted = f"{topic.partitions} lists of {topic.replication_factor} different broker ids from 1 to {brokers}"
    fits = len(topic.assignment) == topic.partitions and all(
        len(replicas) == len(set(replicas)) == topic.replication_factor and set(replicas) <= set(range(1, brokers + 1))
        for replicas in topic.assignment
    )
    if not fits:
        got = str([list(replicas) for replicas in topic.assignment])
        yield UsageError("not an assignment of this topic", where=where, got=got, allowed=wanted)


def _predictions(scenario: Scenario) -> Iterator[UsageError]:
    ranges = []
    for index, prediction in enumerate(scenario.predictions):
        where = f"predictions[{index}]"
        try:
            ranges.append(SpecifierSet(prediction.kafka))
        except InvalidSpecifier:
            yield UsageError(
                "not a version range", where=f"{where}.kafka", got=repr(prediction.kafka), allowed="e.g. '>=3.7,<4.1'"
            )
    for index, text in enumerate(scenario.kafka):
        if len(ranges) == len(scenario.predictions) and not any(_fits(text, one) for one in ranges):
            yield UsageError(
                "no prediction for this release",
                where=f"kafka[{index}]",
                got=repr(text),
                allowed="a [[predictions]] entry whose kafka range holds it",
            )


def _fits(text: str, versions: SpecifierSet) -> bool:
    """Whether the range holds the release; one that is no release has had its own complaint."""
    try:
        return versions.contains(parse_version(text), prereleases=True)
    except UsageError:
        return True
