"""Validates the copiers of a scenario: producers that send a record for each record that they read."""

from __future__ import annotations

from collections.abc import Iterator

from ebbtide.errors import UsageError
from ebbtide.scenario.client_libraries import ClientLibrary
from ebbtide.scenario.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC
from ebbtide.scenario.model import CopiedOffsets
from ebbtide.scenario.parts import Parts, TablePart
from ebbtide.scenario.references import validate_topic_exists, without_offsets_topic
from ebbtide.scenario.validate_groups import validate_group_name

_NOT_OF_COPIERS = ("count", "rate_per_s", "keys", "abort_every", "fence_every", "abort_unacked")
"""Keys that say what a producer sends, and when: a copier sends what it reads."""


def validate_copier(producer: TablePart, parts: Parts, where: str) -> Iterator[UsageError]:
    """Report a copier that cannot copy, and keys that only a copier can have."""
    yield from producer.check(_validate_topics, parts, where)
    yield from producer.check(_validate_client, where)
    yield from producer.check(_validate_group, parts, where)
    yield from producer.check(_validate_only_of_copiers, where)
    if producer.get("copies") is not None:
        for key in _NOT_OF_COPIERS:
            if producer.has_value(key):
                yield UsageError(
                    "a copier sends a record for each record that it reads, and nothing else",
                    where=f"{where}.{key}",
                    got=str(producer.get(key)).lower(),
                    allowed=f"a copier without {key}, or a producer without copies",
                )


def _validate_topics(parts: Parts, where: str, *, copies: str | None, topic: str) -> Iterator[UsageError]:
    where = f"{where}.copies"
    if copies is None:
        return
    yield from validate_topic_exists(parts, copies, where)
    if copies == topic:
        what = "a copier that reads what it sends never ends"
        yield UsageError(what, where=where, got=repr(copies), allowed="another topic than its own")
    elif copies in INTERNAL_TOPICS:
        yield UsageError(
            "Kafka's own topic", where=where, got=repr(copies), allowed="a topic of the scenario's clients"
        )


def _validate_client(
    where: str, *, copies: str | None, client: ClientLibrary | None, transactional: bool
) -> Iterator[UsageError]:
    if copies is not None and not (client == "java" and transactional):
        yield UsageError(
            "only a transactional java producer copies",
            where=f"{where}.copies",
            got=repr(copies),
            allowed="client = 'java' and transactional = true beside it",
        )


def _validate_group(parts: Parts, where: str, *, copies: str | None, group: str | None) -> Iterator[UsageError]:
    where = f"{where}.group"
    if copies is None:
        return
    if group is None:
        yield UsageError("missing key", where=where, allowed="the group in which the copier reads, e.g. 'copiers'")
        return
    yield from validate_group_name(where, group)
    if any(one is not None and one.get("group") == group for one in parts.consumers or ()):
        yield UsageError("a group of consumers", where=where, got=repr(group), allowed="a group of copiers alone")
    elif parts.topics and OFFSETS_TOPIC not in parts.topics:
        yield without_offsets_topic(where, repr(group))


def _validate_only_of_copiers(
    where: str, *, copies: str | None, group: str | None, offsets: CopiedOffsets | None
) -> Iterator[UsageError]:
    for key, value in (("group", group), ("offsets", offsets)):
        if copies is None and value is not None:
            yield UsageError(
                "only a producer that copies a topic has this",
                where=f"{where}.{key}",
                got=repr(value),
                allowed="copies = 'TOPIC' beside it",
            )
