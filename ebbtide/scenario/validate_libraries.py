"""Validates what a scenario asks of a producer's client library."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial

import msgspec

from ebbtide.errors import UsageError
from ebbtide.releases.known_releases import parse_version
from ebbtide.scenario.client_libraries import DEFAULT_LIBRARY, LIBRARIES, ClientLibrary
from ebbtide.scenario.model import ProducerSpec
from ebbtide.scenario.parts import TablePart
from ebbtide.scenario.references import put_at

_IDEMPOTENT_JAVA_BOUNDS = {
    "retries": (1, 2**31 - 1, "1 or more"),
    "max.in.flight.requests.per.connection": (1, 5, "1 to 5"),
}
"""The lowest and the highest value that the Java client takes, and both in words."""
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")
_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(ProducerSpec)}


def validate_library(producer: TablePart, where: str) -> Iterator[UsageError]:
    """Report keys that the producer's library cannot carry out."""
    yield from producer.check(_validate_keys, producer, where)
    yield from producer.check(_validate_idempotent_java, f"{where}.properties")
    yield from validate_client_kafka(producer, where)


def validate_client_kafka(producer: TablePart, where: str) -> Iterator[UsageError]:
    """Report a text that is not a Kafka release, and a release of another library than Kafka's.

    A run checks this also for the scenario of a record, which somebody else may have written.
    """
    yield from producer.check(_validate_client_kafka, f"{where}.client_kafka")


def _validate_keys(producer: TablePart, where: str, *, client: ClientLibrary | None) -> Iterator[UsageError]:
    library = client or DEFAULT_LIBRARY
    for key, why in LIBRARIES[library].unsupported.items():
        if producer.has_value(key) and producer.get(key) != _DEFAULTS[key]:
            others = [repr(name) for name, other in LIBRARIES.items() if key not in other.unsupported]
            yield UsageError(
                f"a {library} producer cannot do this: {why}",
                where=f"{where}.{key}",
                got=str(producer.get(key)),
                allowed=f"a producer without {key}, or client = {' or '.join(others)}",
            )


def _validate_idempotent_java(
    where: str,
    *,
    client: ClientLibrary | None,
    transactional: bool,
    idempotent: bool,
    properties: Mapping[str, str] | None,
) -> Iterator[UsageError]:
    """Report values that the Java client refuses in an idempotent or transactional producer."""
    if client != "java" or not (transactional or idempotent):
        return
    for name, (lowest, highest, allowed) in _IDEMPOTENT_JAVA_BOUNDS.items():
        value = (properties or {}).get(name)
        if value is not None and _WHOLE_NUMBER.fullmatch(value) and not lowest <= int(value) <= highest:
            yield UsageError(
                "the Java client refuses this in an idempotent or transactional producer",
                where=f"{where}.{name}",
                got=value,
                allowed=allowed,
            )


def _validate_client_kafka(
    where: str, *, client: ClientLibrary | None, client_kafka: str | None
) -> Iterator[UsageError]:
    if client_kafka is None:
        return
    if client != "java":
        yield UsageError(
            "only a java producer is of a Kafka release", where=where, got=client_kafka, allowed="client = 'java'"
        )
    yield from put_at(where, partial(parse_version, client_kafka))
