"""Names of Kafka that people write as keys of a scenario file, and what stands for them there.

Dots and underscores count as the same, so `linger.ms` needs no line here: the key is `linger_ms`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

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


def kafka_name_hint(name: str, known: Collection[str], tables: Sequence[str] = ()) -> str | None:
    """Return how a name of Kafka is spelled in a table with the keys `known`; None if that is not known.

    `tables` are those of its keys that hold settings by Kafka's names.
    """
    dotted = name.replace("_", ".")
    if (key := _KEYS.get(dotted)) in known:
        return f"Kafka's {dotted} is {key} here"
    if "." not in name:
        return None
    if (key := name.replace(".", "_")) in known:
        return f"Kafka's {name} is {key} here"
    return f'Kafka\'s names belong in {" or ".join(tables)}: {tables[0]} = {{ "{name}" = ... }}' if tables else None
