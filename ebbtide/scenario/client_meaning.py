"""What the types of a scenario file cannot say of its producers and consumers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ebbtide.errors import UsageError
from ebbtide.scenario.model import ConsumerSpec, ProducerSpec, Scenario
from ebbtide.scenario.references import Wrong, limit, topic_exists

PAYLOAD_BYTES_MAX = 1_048_000
"""With its key and the batch around it, the largest record that brokers take by default (max.message.bytes)."""

_GROUP = re.compile(r"[A-Za-z0-9._-]{1,64}")
_OF_TRANSACTIONS = ("txn_records", "abort_every", "fence_every")


def clients(scenario: Scenario, wrong: Wrong) -> Iterator[UsageError]:
    """Ids, topics, ranges, and keys that need or exclude each other."""
    yield from _ids("producers", [producer.id for producer in scenario.producers], wrong)
    yield from _ids("consumers", [consumer.id for consumer in scenario.consumers], wrong)
    for index, producer in enumerate(scenario.producers):
        where = f"producers[{index}]"
        yield from topic_exists(scenario, producer.topic, f"{where}.topic", wrong)
        yield from _sending(producer, where, wrong)
        yield from _guarantees(producer, where, wrong)
    for index, consumer in enumerate(scenario.consumers):
        where = f"consumers[{index}]"
        for at, topic in enumerate(consumer.topics):
            yield from topic_exists(scenario, topic, f"{where}.topics[{at}]", wrong)
        yield from _reading(consumer, where, wrong)


def _sending(producer: ProducerSpec, where: str, wrong: Wrong) -> Iterator[UsageError]:
    if producer.count is None and producer.rate_per_s is None and not wrong(f"{where}.rate_per_s"):
        yield UsageError("neither count nor rate", where=f"{where}.count", allowed="count, rate_per_s, or both")
    yield from _limit(f"{where}.count", producer.count, 1)
    yield from _limit(f"{where}.rate_per_s", producer.rate_per_s, 0.1)
    yield from _limit(f"{where}.payload_bytes", producer.payload_bytes, 64, PAYLOAD_BYTES_MAX)
    yield from _limit(f"{where}.linger_ms", producer.linger_ms, 0, 10_000)
    yield from _limit(f"{where}.keys", producer.keys, 1, 1_000_000)


def _guarantees(producer: ProducerSpec, where: str, wrong: Wrong) -> Iterator[UsageError]:
    if (producer.idempotent or producer.transactional) and producer.acks != "all":
        yield UsageError(
            "an idempotent or transactional producer needs every in-sync replica",
            where=f"{where}.acks",
            got=repr(producer.acks),
            allowed="'all'",
        )
    if producer.transactional and producer.txn_records is None:
        yield UsageError(
            "missing key", where=f"{where}.txn_records", allowed="how many records a transaction has, e.g. 50"
        )
    for key in _OF_TRANSACTIONS:
        given = getattr(producer, key)
        if given is not None and not producer.transactional and not wrong(f"{where}.transactional"):
            yield UsageError(
                "only a transactional producer has transactions",
                where=f"{where}.{key}",
                got=str(given),
                allowed="transactional = true beside it",
            )
    yield from _limit(f"{where}.txn_records", producer.txn_records, 1, 10_000)
    yield from _limit(f"{where}.abort_every", producer.abort_every, 1)
    yield from _limit(f"{where}.fence_every", producer.fence_every, 1)


def _reading(consumer: ConsumerSpec, where: str, wrong: Wrong) -> Iterator[UsageError]:
    if consumer.group is not None and not _GROUP.fullmatch(consumer.group):
        yield UsageError(
            "not a group name",
            where=f"{where}.group",
            got=repr(consumer.group),
            allowed="1 to 64 of A-Z a-z 0-9 . _ -",
        )
    if consumer.leave_every is not None and consumer.group is None and not wrong(f"{where}.group"):
        yield UsageError(
            "only a member of a group can leave it",
            where=f"{where}.leave_every",
            got=str(consumer.leave_every),
            allowed="group = 'NAME' beside it",
        )
    yield from _limit(f"{where}.leave_every", consumer.leave_every, 1)
    yield from _limit(f"{where}.max_rate_per_s", consumer.max_rate_per_s, 1)


def _limit(where: str, got: float | None, low: float, high: float | None = None) -> Iterator[UsageError]:
    if got is not None:
        yield from limit(where, got, low, high)


def _ids(kind: str, ids: list[int], wrong: Wrong) -> Iterator[UsageError]:
    taken = set()
    for index, one in enumerate(ids):
        yield from limit(f"{kind}[{index}].id", one, 1, 1_000_000)
        if one in taken:
            yield UsageError("id taken", where=f"{kind}[{index}].id", got=str(one), allowed="one of its own")
        if not wrong(f"{kind}[{index}].id"):
            taken.add(one)
