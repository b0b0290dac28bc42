"""Validates the producers, copiers and consumers of a scenario beyond their types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ebbtide.errors import UsageError
from ebbtide.scenario.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC
from ebbtide.scenario.model import ConsumerSpec, ProducerSpec, Scenario
from ebbtide.scenario.references import limit, limit_field, validate_topic_exists, without_offsets_topic
from ebbtide.scenario.validate_groups import validate_group_name, validate_group_protocols, validate_member
from ebbtide.scenario.validate_libraries import validate_library
from ebbtide.scenario.validate_settings import validate_producer_settings

PAYLOAD_BYTES_MAX = 1_048_000
"""With its key and the batch around it, the largest record that brokers take by default (max.message.bytes)."""

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
    yield from validate_group_protocols(scenario)
    yield from validate_producer_settings(scenario)


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
