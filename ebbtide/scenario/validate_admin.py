"""Validates administrative steps: replicas, topics that come and go, partitions and expected errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from ebbtide.errors import UsageError
from ebbtide.scenario.internal_topics import INTERNAL_TOPICS
from ebbtide.scenario.kafka_settings import DEFAULT_LIBRARY
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.references import EarlierNames, limit
from ebbtide.scenario.steps.admin import AddPartitionsStep, CreateTopicStep, DeleteRecordsStep, DeleteTopicStep
from ebbtide.scenario.words import Role, overlap
from ebbtide.suggestions import bracketed_suggestion

_PARTITIONS_MAX = 100
_NO_REPLICAS = ("controller", "controllers", "clients")
_PUT_FIRST = ("longest-log", "last-known-elr")
"""Roles that an author puts before all replicas, to prefer them: each broker counts where it comes first."""


def validate_replicas(replicas: Sequence[Role], where: str, brokers: int) -> Iterator[UsageError]:
    """Report replicas that are not brokers, that repeat, or that are too many."""
    for role in replicas:
        if role.kind in _NO_REPLICAS:
            yield UsageError("no replica can be there", where=where, got=repr(role), allowed="roles of brokers")
    for one, other in combinations(replicas, 2):
        if overlap(one, other) and one.kind not in _PUT_FIRST:
            got = f"{one!r} and {other!r}"
            yield UsageError("a broker holds a replica once", where=where, got=got, allowed="each broker once")
    if len(replicas) > brokers:
        got, allowed = str(len(replicas)), f"up to {brokers} (cluster.brokers)"
        yield UsageError("more replicas than brokers", where=where, got=got, allowed=allowed)


def validate_error_name(name: str, where: str) -> Iterator[UsageError]:
    """An error that Kafka does not have."""
    # Imported here: few scenarios expect an error.
    from kafka import errors

    kinds = [one for one in vars(errors).values() if isinstance(one, type)]
    of_brokers = [vars(one) for one in kinds if issubclass(one, errors.BrokerResponseError)]
    # Those without a positive number stand for no error code of the protocol.
    names = sorted({str(one["message"]) for one in of_brokers if (one.get("errno") or -1) > 0})
    if name not in names:
        allowed = "an error of Kafka's protocol, e.g. ELECTION_NOT_NEEDED" + bracketed_suggestion(name, names)
        yield UsageError("unknown error", where=where, got=repr(name), allowed=allowed)


def validate_added_partitions(
    scenario: Scenario, step: AddPartitionsStep, where: str, names: EarlierNames
) -> Iterator[UsageError]:
    """Report a topic that has so many partitions already, and producers that would not write to new ones."""
    topic = step.topic
    before = names.partitions_of(scenario, topic)
    if topic in INTERNAL_TOPICS:
        yield UsageError(
            "Kafka's own topic", where=f"{where}.topic", got=repr(topic), allowed="a topic of the scenario"
        )
    elif before:
        when = "after an earlier step" if topic in names.partition_counts else "at first"
        yield from limit(f"{where}.count", step.count, before + 1, _PARTITIONS_MAX, why=f"{topic} has {before} {when}")
    for one in scenario.producers:
        if one.topic == topic and one.library != DEFAULT_LIBRARY:
            yield UsageError(
                "a producer that never writes to added partitions",
                where=f"{where}.topic",
                got=f"{topic}, to which producer {one.id} writes with {one.client}",
                allowed=f"producers with client = {DEFAULT_LIBRARY!r}, or none",
            )


def validate_deleted_topic(step: DeleteTopicStep, where: str, names: EarlierNames) -> Iterator[UsageError]:
    """Report a topic that an earlier step deleted, and one of Kafka's own."""
    at, topic = f"{where}.topic", step.topic
    if topic in INTERNAL_TOPICS:
        yield UsageError("Kafka's own topic", where=at, got=repr(topic), allowed="a topic of the scenario")
        return
    if topic in names.deleted_topics and step.expect_error is None:
        yield UsageError(
            "an earlier step deleted the topic",
            where=at,
            got=repr(topic),
            allowed="a `create-topic` step between the two, or expect_error = 'UNKNOWN_TOPIC_OR_PARTITION'",
        )


def validate_users(scenario: Scenario) -> Iterator[UsageError]:
    """Report topics that are deleted, maybe to be made again, while clients use them.

    What a client says of a record does not say of which of two topics of one name it is.
    """
    for index, step in enumerate(scenario.steps):
        if not isinstance(step, DeleteTopicStep):
            continue
        topic = step.topic
        users = [f"producer {one.id}" for one in scenario.producers if topic in (one.topic, one.copies)]
        users += [f"consumer {one.id}" for one in scenario.consumers if topic in one.topics]
        if users:
            yield UsageError(
                "a topic that clients use cannot be deleted, nor made again",
                where=f"steps[{index}].topic",
                got=f"{topic}, which {users[0]} uses",
                allowed="a topic without producers and consumers; the final read reads it",
            )


def validate_created_topic(
    scenario: Scenario, step: CreateTopicStep, where: str, names: EarlierNames
) -> Iterator[UsageError]:
    """Report a topic that exists, and steps that move the log starts or the partitions of such a topic."""
    topic = step.topic
    if topic not in scenario.topics:
        return
    if topic not in names.deleted_topics and step.expect_error is None:
        yield UsageError(
            "a topic of this name exists",
            where=f"{where}.topic",
            got=repr(topic),
            allowed="a topic that an earlier `delete-topic` step deletes, or expect_error = 'TOPIC_ALREADY_EXISTS'",
        )
    for index, other in enumerate(scenario.steps):
        is_changed = (isinstance(other, AddPartitionsStep) and other.topic == topic) or (
            isinstance(other, DeleteRecordsStep) and other.partition.at.topic == topic
        )
        if is_changed:
            yield UsageError(
                "a topic that is made again keeps its partitions and records",
                where=f"{where}.topic",
                got=f"{topic}, which steps[{index}] ({other.step}) changes",
                allowed="`add-partitions` and `delete-records` of other topics",
            )
