"""Names of Kafka that people write as keys of a scenario file, and what stands for them there.

Dots and underscores count as the same, so `linger.ms` needs no line here: the key is `linger_ms`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ebbtide.scenario.key_places import place_of_key
from ebbtide.scenario.validate_features import FEATURES

_FEATURE_LEVELS = "features"
_KEYS: Mapping[str, str] = {
    "broker.session.timeout.ms": "session_timeout_s",
    "compression.type": "compression",
    "enable.idempotence": "idempotent",
    "group.id": "group",
    "isolation.level": "isolation",
    "min.insync.replicas": "min_isr",
    "replica.lag.time.max.ms": "replica_lag_max_s",
    "transactional.id": "transactional",
}
"""The key of a scenario for each name of Kafka that it is not spelled like."""


def name_with_dots(key: str, value: Any) -> str:
    """Return the name that TOML took apart into tables at its dots, because it was not in quotes."""
    while isinstance(value, dict) and value:
        inner, value = next(iter(value.items()))
        key = f"{key}.{inner}"
    return key


def kafka_name_hint(name: str, known: Collection[str]) -> str | None:
    """Return how a name of Kafka is spelled in a table with the keys `known`; None if no key means it."""
    dotted = name.replace("_", ".")
    if (key := _KEYS.get(dotted)) in known:
        return f"Kafka's {dotted} is {key} here"
    if "." in name and (key := name.replace(".", "_")) in known:
        return f"Kafka's {name} is {key} here"
    return None


def kafka_place_hint(name: str, known: Collection[str]) -> str | None:
    """Return where a name of Kafka belongs that means a feature or a key of another table; None for other names."""
    if name in FEATURES:
        there = "" if _FEATURE_LEVELS in known else " under [cluster]"
        return f'the level of a feature belongs in {_FEATURE_LEVELS}{there}: {_FEATURE_LEVELS} = {{ "{name}" = ... }}'
    key = name.replace(".", "_")
    if "." in name and (place := place_of_key(key)) is not None:
        return f"Kafka's {name} is {key}, which belongs {place}"
    return None


def kafka_table_hint(name: str, tables: Sequence[str]) -> str | None:
    """Return which of `tables` take a name of Kafka that no key means; None for other words, or without tables."""
    if "." not in name or not tables:
        return None
    return f'Kafka\'s names belong in {" or ".join(tables)}: {tables[0]} = {{ "{name}" = ... }}'
