"""Validates the producers, copiers and consumers of a scenario beyond their types.

That includes what it asks of consumer groups and their members, and of a producer's client library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ebbtide.errors import UsageError
from ebbtide.releases import first_with
from ebbtide.releases.feature_levels import METADATA_VERSIONS
from ebbtide.releases.known_releases import METADATA_VERSION, version_of
from ebbtide.scenario.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC
from ebbtide.scenario.kafka_settings import LIBRARIES
from ebbtide.scenario.model import ConsumerSpec, ProducerSpec, Scenario
from ebbtide.scenario.references import limit, limit_field, validate_topic_exists, without_offsets_topic
from ebbtide.scenario.validate_settings import validate_client_settings

PAYLOAD_BYTES_MAX = 1_048_000
"""With its key and the batch around it, the largest record that brokers take by default (max.message.bytes)."""

HANDLE_MS_MAX = 5_000
"""A run that ends waits for the record that is being handled."""

_RANGES_OF_PRODUCERS = (
    ("count", 1, None),
    ("rate_per_s", 0.1, None),
    ("payload_bytes", 64, PAYLOAD_BYTES_MAX),
    ("linger_ms", 0, 10_000),
    ("keys", 1, 1_000_000),
    ("txn_records", 1, 10_000),
    ("abort_every", 1, None),
    ("fence_every", 1, None),
)
_OF_TRANSACTIONS = ("txn_records", "abort_every", "fence_every", "abort_unacked")
_OF_COPIERS = ("group", "offsets")
_NOT_OF_COPIERS = ("count", "rate_per_s", "keys", "abort_every", "fence_every", "abort_unacked")
"""Keys that say what a producer sends, and when: a copier sends what it reads."""


def validate_clients(scenario: Scenario) -> Iterator[UsageError]:
    """Ids, topics, ranges, and keys that need or exclude each other."""
    yield from _validate_ids("producers", scenario.producers)
    yield from _validate_ids("consumers", scenario.consumers)
    for index, producer in enumerate(scenario.producers):
        where = f"producers[{index}]"
        yield from _validate_topic(scenario, producer.topic, f"{where}.topic")
        yield from _validate_sending(producer, where)
        yield from _validate_copier(producer, scenario, where)
        yield from validate_library(producer, where)
        yield from _validate_transactions(producer, where)
        for name, low, high in _RANGES_OF_PRODUCERS:
            yield from limit_field(where, producer, name, low, high)
    for index, consumer in enumerate(scenario.consumers):
        where = f"consumers[{index}]"
        for at, topic in enumerate(consumer.topics):
            yield from _validate_topic(scenario, topic, f"{where}.topics[{at}]")
        yield from validate_member(consumer, scenario, where)
        for name in ("leave_every", "commit_every", "max_rate_per_s"):
            yield from limit_field(where, consumer, name, 1)
        yield from limit_field(where, consumer, "handle_ms", 0.1, HANDLE_MS_MAX)
    yield from validate_group_protocols(scenario)
    yield from validate_client_settings(scenario)


def _validate_topic(scenario: Scenario, topic: str, where: str) -> Iterator[UsageError]:
    yield from validate_topic_exists(scenario, topic, where)
    if topic in INTERNAL_TOPICS:
        yield UsageError("Kafka's own topic", where=where, got=repr(topic), allowed="a topic of the scenario's clients")


def _validate_sending(producer: ProducerSpec, where: str) -> Iterator[UsageError]:
    if producer.count is None and producer.rate_per_s is None and producer.copies is None:
        yield UsageError("neither count nor rate", where=f"{where}.count", allowed="count, rate_per_s, or both")
    if (producer.idempotent or producer.transactional) and producer.acks != "all":
        yield UsageError(
            "an idempotent or transactional producer needs every in-sync replica",
            where=f"{where}.acks",
            got=repr(producer.acks),
            allowed="'all'",
        )


def _validate_transactions(producer: ProducerSpec, where: str) -> Iterator[UsageError]:
    if producer.transactional:
        if producer.txn_records is None:
            allowed = "how many records a transaction has, e.g. 50"
            yield UsageError("missing key", where=f"{where}.txn_records", allowed=allowed)
        return
    for key in _OF_TRANSACTIONS:
        if value := getattr(producer, key):
            yield UsageError(
                "only a transactional producer has transactions",
                where=f"{where}.{key}",
                got=str(value).lower(),
                allowed="transactional = true beside it",
            )


def _validate_copier(producer: ProducerSpec, scenario: Scenario, where: str) -> Iterator[UsageError]:
    """Report a copier that cannot copy, and keys that only a copier can have."""
    if producer.copies is None:
        for key in _OF_COPIERS:
            if (value := getattr(producer, key)) is not None:
                yield UsageError(
                    "only a producer that copies a topic has this",
                    where=f"{where}.{key}",
                    got=repr(value),
                    allowed="copies = 'TOPIC' beside it",
                )
        return
    at, got = f"{where}.copies", repr(producer.copies)
    yield from _validate_topic(scenario, producer.copies, at)
    if producer.copies == producer.topic:
        yield UsageError(
            "a copier that reads what it sends never ends", where=at, got=got, allowed="another topic than its own"
        )
    if not (producer.client == "java" and producer.transactional):
        allowed = "client = 'java' and transactional = true beside it"
        yield UsageError("only a transactional java producer copies", where=at, got=got, allowed=allowed)
    yield from _validate_group_of_copier(producer.group, scenario, f"{where}.group")
    for key in _NOT_OF_COPIERS:
        if value := getattr(producer, key):
            yield UsageError(
                "a copier sends a record for each record that it reads, and nothing else",
                where=f"{where}.{key}",
                got=str(value).lower(),
                allowed=f"a copier without {key}, or a producer without copies",
            )


def _validate_group_of_copier(group: str | None, scenario: Scenario, where: str) -> Iterator[UsageError]:
    if group is None:
        yield UsageError("missing key", where=where, allowed="the group in which the copier reads, e.g. 'copiers'")
        return
    yield from validate_group_name(where, group)
    if any(one.group == group for one in scenario.consumers):
        yield UsageError("a group of consumers", where=where, got=repr(group), allowed="a group of copiers alone")
    elif OFFSETS_TOPIC not in scenario.topics:
        yield without_offsets_topic(where, repr(group))


def _validate_ids(kind: str, clients: Sequence[ProducerSpec | ConsumerSpec]) -> Iterator[UsageError]:
    taken = set()
    for index, client in enumerate(clients):
        yield from limit(f"{kind}[{index}].id", client.id, 1, 1_000_000)
        if client.id in taken:
            yield UsageError("id taken", where=f"{kind}[{index}].id", got=str(client.id), allowed="one of its own")
        taken.add(client.id)


_GROUP = re.compile(r"[A-Za-z0-9._-]{1,64}")
_GROUP_VERSION = "group.version"
_FIRST_METADATA_VERSION = METADATA_VERSIONS["4.0-IV0"]
"""The first that storage is formatted with group.version 1 for."""
_OF_MEMBERS = {
    "leave_every": "only a member of a group can leave it",
    "commit_every": "only a member of a group can commit",
    "commit_when": "only a member of a group can commit",
    "group_protocol": "only a member of a group has its protocol",
}
"""Keys that only a member of a group can have, and why."""


def validate_member(consumer: ConsumerSpec, scenario: Scenario, where: str) -> Iterator[UsageError]:
    """Report an impossible group name, and keys that only a member of a group can have."""
    if consumer.group is None:
        for key, what in _OF_MEMBERS.items():
            if (value := getattr(consumer, key)) is not None:
                yield UsageError(what, where=f"{where}.{key}", got=str(value), allowed="group = 'NAME' beside it")
        return
    yield from validate_group_name(f"{where}.group", consumer.group)
    if consumer.commit_every is not None and OFFSETS_TOPIC not in scenario.topics:
        yield without_offsets_topic(f"{where}.commit_every", str(consumer.commit_every))
    if consumer.commit_when == "before-handling" and (consumer.commit_every is None or consumer.handle_ms is None):
        yield UsageError(
            "a commit before the handling needs both",
            where=f"{where}.commit_when",
            got=consumer.commit_when,
            allowed="commit_every = RECORDS and handle_ms = MILLISECONDS beside it",
        )
    if consumer.group_protocol == "consumer" and consumer.client != "librdkafka":
        yield UsageError(
            "kafka-python does not have the group protocol of KIP-848",
            where=f"{where}.group_protocol",
            got=consumer.group_protocol,
            allowed="classic, or client = 'librdkafka' beside it",
        )


def validate_group_protocols(scenario: Scenario) -> Iterator[UsageError]:
    """Report the protocol `consumer` (KIP-848) on releases and feature levels that do not have it."""
    users = [index for index, one in enumerate(scenario.consumers) if one.group_protocol == "consumer"]
    formed_on, features = scenario.cluster.formed_on, scenario.cluster.features
    for kafka in scenario.kafka if formed_on is None else (formed_on,):
        if version_of(kafka) < first_with.CONSUMER_GROUPS:
            yield from _refuse_protocol(users, f"Kafka {kafka} does not have the group protocol of KIP-848")
    if features.get(_GROUP_VERSION) == 0:
        yield from _refuse_protocol(users, f"{_GROUP_VERSION} 0 switches the group protocol of KIP-848 off")
    level = features.get(METADATA_VERSION)
    if level is not None and level < _FIRST_METADATA_VERSION and _GROUP_VERSION not in features:
        yield from _refuse_protocol(users, f"with {METADATA_VERSION} {level}, {_GROUP_VERSION} is 0 by default")


def _refuse_protocol(users: list[int], what: str) -> Iterator[UsageError]:
    for index in users:
        yield UsageError(
            what,
            where=f"consumers[{index}].group_protocol",
            got="consumer",
            allowed=f"classic; a cluster formed on Kafka {first_with.CONSUMER_GROUPS} or newer; {_GROUP_VERSION} 1",
        )


def validate_group_name(where: str, group: str) -> Iterator[UsageError]:
    """Report a group name that Ebbtide does not use."""
    if not _GROUP.fullmatch(group):
        yield UsageError("not a group name", where=where, got=repr(group), allowed="1 to 64 of A-Z a-z 0-9 . _ -")


_IDEMPOTENT_JAVA_BOUNDS = {
    "retries": (1, 2**31 - 1, "1 or more"),
    "max.in.flight.requests.per.connection": (1, 5, "1 to 5"),
}
"""The lowest and the highest value that the Java client takes, and both in words."""
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")
_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(ProducerSpec)}


def validate_library(producer: ProducerSpec, where: str) -> Iterator[UsageError]:
    """Report keys that the producer's library cannot carry out."""
    for key, why in LIBRARIES[producer.library].unsupported.items():
        value = getattr(producer, key)
        if value != _DEFAULTS[key]:
            others = [repr(name) for name, other in LIBRARIES.items() if key not in other.unsupported]
            yield UsageError(
                f"a {producer.library} producer cannot do this: {why}",
                where=f"{where}.{key}",
                got=str(value),
                allowed=f"a producer without {key}, or client = {' or '.join(others)}",
            )
    if producer.client == "java" and (producer.transactional or producer.idempotent):
        yield from _validate_idempotent_java(producer.properties or {}, f"{where}.properties")
    if producer.client_kafka is not None and producer.client != "java":
        yield UsageError(
            "only a java producer is of a Kafka release",
            where=f"{where}.client_kafka",
            got=producer.client_kafka,
            allowed="client = 'java'",
        )


def _validate_idempotent_java(properties: Mapping[str, str], where: str) -> Iterator[UsageError]:
    """Report values that the Java client refuses in an idempotent or transactional producer."""
    for name, (lowest, highest, allowed) in _IDEMPOTENT_JAVA_BOUNDS.items():
        value = properties.get(name)
        if value is not None and _WHOLE_NUMBER.fullmatch(value) and not lowest <= int(value) <= highest:
            yield UsageError(
                "the Java client refuses this in an idempotent or transactional producer",
                where=f"{where}.{name}",
                got=value,
                allowed=allowed,
            )
