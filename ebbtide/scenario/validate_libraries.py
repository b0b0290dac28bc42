"""Validates what a scenario asks of a producer's client library."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from ebbtide.errors import UsageError
from ebbtide.scenario.client_libraries import LIBRARIES
from ebbtide.scenario.model import ProducerSpec

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
