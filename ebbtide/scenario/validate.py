"""Validates a scenario file beyond its types.

It checks cluster, topics, clients, predictions, and the steps as a whole.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from ebbtide.errors import UsageError
from ebbtide.releases.known_releases import parse_version
from ebbtide.scenario.internal_topics import INTERNAL_TOPICS, PARTITIONS_PROPERTIES
from ebbtide.scenario.model import ClusterSpec
from ebbtide.scenario.parts import MAX_BROKERS, Parts, StepPart, TablePart
from ebbtide.scenario.references import EarlierNames, limit, limit_field, put_at
from ebbtide.scenario.safety import check_name, validate_topic_name
from ebbtide.scenario.steps.disk import ReadOnlyStep
from ebbtide.scenario.triggers import HeldTrigger
from ebbtide.scenario.validate_clients import validate_clients
from ebbtide.scenario.validate_directories import validate_log_dirs
from ebbtide.scenario.validate_features import FEATURES, validate_feature_name, validate_features
from ebbtide.scenario.validate_order import validate_order, validate_starts
from ebbtide.scenario.validate_quorum import validate_quorum, validate_voter_steps
from ebbtide.scenario.validate_settings import validate_settings
from ebbtide.scenario.validate_steps import validate_step
from ebbtide.scenario.validate_triggers import validate_held
from ebbtide.scenario.validate_upgrades import validate_upgrades


def validate(parts: Parts, *, to_run: bool = True) -> Iterator[UsageError]:
    """Return every problem of a scenario that its types cannot show.

    The problems are references, ranges and exclusive keys, each at its own key. A rule that reads
    a value which does not fit its type is skipped. Without `to_run`, problems are left out that the
    scenario of a record may have, and that stop a run of it.
    """
    yield from _header(parts)
    if parts.cluster is not None:
        yield from _cluster(parts.cluster, parts.kafka or ())
    yield from validate_log_dirs(parts)
    if parts.settle_s is not None:
        yield from limit("settle_s", parts.settle_s, 1)
    yield from _topics(parts)
    yield from validate_clients(parts)
    yield from _steps(parts)
    yield from validate_settings(parts, to_run=to_run)
    if to_run:
        yield from validate_starts(parts.steps or (), one_controller=_has_one_controller(parts))
    yield from validate_upgrades(parts)
    yield from _predictions(parts)


def _has_one_controller(parts: Parts) -> bool:
    return parts.cluster is not None and parts.cluster.get("controllers") == 1


def _header(parts: Parts) -> Iterator[UsageError]:
    if parts.name is not None:
        yield from put_at("name", partial(check_name, parts.name))
    if parts.kafka == ():
        yield UsageError("no release to run", where="kafka", got="[]", allowed="at least one, e.g. ['3.9.1']")
    for index, text in enumerate(parts.kafka or ()):
        yield from put_at(f"kafka[{index}]", partial(parse_version, text))


def _cluster(cluster: TablePart, releases: tuple[str, ...]) -> Iterator[UsageError]:
    yield from validate_quorum(cluster, releases)
    features = cluster.elements("features", {})
    yield from _levels(features)
    formed_on = cluster.get("formed_on")
    if formed_on is not None:
        yield from put_at("cluster.formed_on", partial(parse_version, formed_on))
    yield from cluster.check(_formatting, releases if formed_on is None else (formed_on,), features)
    yield from limit_field("cluster", cluster, "brokers", 1, MAX_BROKERS)
    yield from limit_field("cluster", cluster, "session_timeout_s", 1, 60)
    yield from limit_field("cluster", cluster, "replica_lag_max_s", 1, 60)


def _levels(features: Mapping[str, int]) -> Iterator[UsageError]:
    for name, level in features.items():
        yield from validate_feature_name(name, f"cluster.features.{name}")
        yield from limit(f"cluster.features.{name}", level, 0)


def _formatting(
    releases: Sequence[str],
    features: Mapping[str, int],
    *,
    controller_properties: Mapping[str, str],
    broker_properties: Mapping[str, str],
) -> Iterator[UsageError]:
    """Report levels that a release cannot be formatted with; what no release can have is reported before."""
    if any(level < 0 or name not in FEATURES for name, level in features.items()):
        return
    cluster = ClusterSpec(
        features=dict(features),
        controller_properties=dict(controller_properties),
        broker_properties=dict(broker_properties),
    )
    for kafka in releases:
        with contextlib.suppress(UsageError):
            parse_version(kafka)
            yield from put_at("cluster.features", partial(validate_features, kafka, cluster))


def _topics(parts: Parts) -> Iterator[UsageError]:
    if parts.topics == {}:
        yield UsageError("no topic", where="topics", allowed="at least one [topics.NAME]")
    for name, topic in (parts.topics or {}).items():
        if topic is not None:
            yield from validate_topic(name, topic, f"topics.{name}", parts.brokers)
    properties = () if parts.cluster is None else parts.cluster.elements("broker_properties")
    for topic_name, name in PARTITIONS_PROPERTIES.items():
        if topic_name in (parts.topics or {}) and name in properties:
            yield UsageError(
                "a property that a topic of the scenario rules out",
                where="cluster.broker_properties",
                got=name,
                allowed=f"no such property beside [topics.{topic_name}], which has one partition",
            )


def validate_topic(name: str, topic: TablePart, where: str, brokers: int) -> Iterator[UsageError]:
    """Report what is impossible for a topic on a cluster of so many brokers."""
    yield from validate_topic_name(name, where)
    if name in INTERNAL_TOPICS:
        yield from limit_field(
            where, topic, "partitions", 1, 1, why="on Ebbtide's clusters Kafka's own topics have one"
        )
    yield from limit_field(where, topic, "partitions", 1, 100)
    yield from limit_field(where, topic, "replication_factor", 1, brokers, why="the number of brokers")
    yield from limit_field(where, topic, "min_isr", 1)
    yield from topic.check(_assignment, topic, f"{where}.assignment", brokers)
    if "min.insync.replicas" in topic.elements("config"):
        yield UsageError(
            "a config that has a key of its own",
            where=f"{where}.config",
            got="min.insync.replicas",
            allowed="min_isr in the topic, and any other config here",
        )


def _assignment(topic: TablePart, where: str, brokers: int, *, replication_factor: int) -> Iterator[UsageError]:
    """Report a list that cannot be an assignment, whatever stands for the numbers that could not be read."""
    assignment: Sequence[Sequence[int | None] | None] = topic.elements("assignment")
    if not assignment:
        return
    partitions: int | None = topic.get("partitions")
    count = "" if partitions is None else f"{partitions} "
    wanted = f"{count}lists of {replication_factor} different broker ids from 1 to {brokers}"
    fits = partitions in (None, len(assignment)) and all(
        _may_hold_partition(replicas, replication_factor, brokers) for replicas in assignment if replicas is not None
    )
    if not fits:
        lists = (", ".join("?" if one is None else str(one) for one in replicas or (None,)) for replicas in assignment)
        got = "[" + ", ".join(f"[{one}]" for one in lists) + "]"
        yield UsageError("not an assignment of this topic", where=where, got=got, allowed=wanted)


def _may_hold_partition(replicas: Sequence[int | None], replication_factor: int, brokers: int) -> bool:
    known = [one for one in replicas if one is not None]
    return (
        len(replicas) == replication_factor
        and len(known) == len(set(known))
        and set(known) <= set(range(1, brokers + 1))
    )


def _file_system(parts: Parts, step: StepPart, where: str) -> Iterator[UsageError]:
    """Report a step that the file system of the nodes' disks cannot carry out."""
    if step.type is ReadOnlyStep and parts.cluster is not None and parts.cluster.get("file_system") == "xfs":
        yield UsageError("xfs cannot be made read-only in this way", where=where, allowed="file_system = 'ext4'")


def _steps(parts: Parts) -> Iterator[UsageError]:
    names = EarlierNames()
    steps = parts.steps or ()
    for index, step in enumerate(steps):
        where = f"steps[{index}]"
        yield from validate_step(parts, step, where, names)
        for trigger in step.triggers:
            if trigger.type is HeldTrigger:
                yield from validate_held(trigger, steps[:index], f"{where}.trigger.held")
        yield from _file_system(parts, step, where)
        if step.name in names.known:
            got = repr(step.name)
            yield UsageError("name taken by an earlier step", where=f"{where}.name", got=got, allowed="another")
        names = names.with_step(step)
    yield from validate_order(steps, one_controller=_has_one_controller(parts))
    yield from validate_voter_steps(parts)


def _predictions(parts: Parts) -> Iterator[UsageError]:
    for index, prediction in enumerate(parts.predictions or ()):
        text = None if prediction is None else prediction.get("kafka")
        try:
            SpecifierSet(text or "")
        except InvalidSpecifier:
            where = f"predictions[{index}].kafka"
            allowed = "e.g. '>=3.7,<4.1'" + _meant_range(str(text))
            yield UsageError("not a version range", where=where, got=repr(text), allowed=allowed)


def _meant_range(text: str) -> str:
    """Return in brackets the range that was probably meant: one release, or a range that lacks its commas."""
    is_release = re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", text) is not None
    meant = f"=={text}" if is_release else re.sub(r"(?<=[0-9*]) +(?=[<>=!~])", ",", text)
    try:
        SpecifierSet(meant)
    except InvalidSpecifier:
        return ""
    return f" (did you mean '{meant}'?)"
