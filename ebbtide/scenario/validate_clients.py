"""Validates the producers and consumers of a scenario file beyond their types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ebbtide.errors import UsageError
from ebbtide.scenario.internal_topics import INTERNAL_TOPICS
from ebbtide.scenario.parts import Parts, TablePart
from ebbtide.scenario.references import limit, limit_field, validate_topic_exists
from ebbtide.scenario.validate_copiers import validate_copier
from ebbtide.scenario.validate_groups import validate_group_protocols, validate_member
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


def validate_clients(parts: Parts) -> Iterator[UsageError]:
    """Ids, topics, ranges, and keys that need or exclude each other."""
    producers, consumers = parts.producers or (), parts.consumers or ()
    yield from _validate_ids("producers", producers)
    yield from _validate_ids("consumers", consumers)
    for index, producer in enumerate(producers):
        if producer is not None:
            where = f"producers[{index}]"
            yield from producer.check(_validate_topic, parts, where)
            yield from producer.check(_validate_sending, where)
            yield from _validate_guarantees(producer, where)
            yield from validate_copier(producer, parts, where)
            yield from validate_library(producer, where)
            yield from producer.check(_validate_transaction_size, where)
            for key in _OF_TRANSACTIONS:
                yield from producer.check(_validate_transactions, f"{where}.{key}", producer.get(key) or None)
            for name, low, high in _RANGES_OF_PRODUCERS:
                yield from limit_field(where, producer, name, low, high)
    for index, consumer in enumerate(consumers):
        if consumer is not None:
            where = f"consumers[{index}]"
            for at, topic in enumerate(consumer.elements("topics")):
                if topic is not None:
                    yield from validate_topic_exists(parts, topic, f"{where}.topics[{at}]")
                    yield from _refuse_internal_topic(topic, f"{where}.topics[{at}]")
            yield from validate_member(consumer, parts, where)
            yield from limit_field(where, consumer, "leave_every", 1)
            yield from limit_field(where, consumer, "commit_every", 1)
            yield from limit_field(where, consumer, "max_rate_per_s", 1)
    yield from validate_group_protocols(parts)
    yield from validate_producer_settings(parts)


def _validate_topic(parts: Parts, where: str, *, topic: str) -> Iterator[UsageError]:
    yield from validate_topic_exists(parts, topic, f"{where}.topic")
    yield from _refuse_internal_topic(topic, f"{where}.topic")


def _refuse_internal_topic(topic: str, where: str) -> Iterator[UsageError]:
    if topic in INTERNAL_TOPICS:
        yield UsageError("Kafka's own topic", where=where, got=repr(topic), allowed="a topic of the scenario's clients")


def _validate_sending(
    where: str, *, count: int | None, rate_per_s: float | None, copies: str | None
) -> Iterator[UsageError]:
    if count is None and rate_per_s is None and copies is None:
        yield UsageError("neither count nor rate", where=f"{where}.count", allowed="count, rate_per_s, or both")


def _validate_guarantees(producer: TablePart, where: str) -> Iterator[UsageError]:
    acks = producer.get("acks", "all")
    if (producer.get("idempotent") or producer.get("transactional")) and acks != "all":
        yield UsageError(
            "an idempotent or transactional producer needs every in-sync replica",
            where=f"{where}.acks",
            got=repr(acks),
            allowed="'all'",
        )


def _validate_transaction_size(where: str, *, transactional: bool, txn_records: int | None) -> Iterator[UsageError]:
    if transactional and txn_records is None:
        yield UsageError(
            "missing key", where=f"{where}.txn_records", allowed="how many records a transaction has, e.g. 50"
        )


def _validate_transactions(where: str, value: int | None, *, transactional: bool) -> Iterator[UsageError]:
    if value is not None and not transactional:
        yield UsageError(
            "only a transactional producer has transactions",
            where=where,
            got=str(value).lower(),
            allowed="transactional = true beside it",
        )


def _validate_ids(kind: str, clients: Sequence[TablePart | None]) -> Iterator[UsageError]:
    taken = set()
    for index, client in enumerate(clients):
        one = None if client is None else client.get("id")
        if one is None:
            continue
        yield from limit(f"{kind}[{index}].id", one, 1, 1_000_000)
        if one in taken:
            yield UsageError("id taken", where=f"{kind}[{index}].id", got=str(one), allowed="one of its own")
        taken.add(one)
