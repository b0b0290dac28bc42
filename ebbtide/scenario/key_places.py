"""Says in which tables of a scenario file a key belongs, for a key that stands in another one.

A key after the header of a table is in that table, so a key is easily in the wrong one.

Names of Kafka that people write as keys of a scenario file, and what stands for them there.

Dots and underscores count as the same, so `linger.ms` needs no line here: the key is `linger_ms`.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import inspect

from ebbtide.scenario.model import Scenario
from ebbtide.scenario.steps.step import StepSpec, struct_fields
from ebbtide.scenario.steps.table import STEP_TYPES
from ebbtide.scenario.triggers import TRIGGERS
from ebbtide.scenario.validate_upgrades import FEATURES

_TOP = "at the top of the file, before the first table"
_PLACES_MAX = 3
"""A key of more tables says too little of which one was meant."""


def place_of_key(key: str) -> str | None:
    """Return where a key belongs, such as `under [cluster]`; None for a key of no table, or of many."""
    places = _places().get(key, ())
    if not 0 < len(places) <= _PLACES_MAX:
        return None
    tables = [f"under {' or '.join(under)}"] if (under := [one for one in places if one != _TOP]) else []
    return ", or ".join([*tables, *([_TOP] if _TOP in places else [])])


def header_of_table(name: str) -> str:
    """Return the header of a table of the whole file: `[cluster]`, `[topics.NAME]`, `[[producers]]`."""
    return next(place for place, _ in _every_table() if place.strip("[]").partition(".")[0] == name)


@functools.cache
def _places() -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for place, keys in _every_table():
        for key in keys:
            found.setdefault(key, []).append(place)
    return found


@functools.cache
def _every_table() -> Sequence[tuple[str, set[str]]]:
    return list(_tables(inspect.type_info(Scenario), ""))


def _tables(kind: inspect.Type, path: str, brackets: str = "[{}]") -> Iterator[tuple[str, set[str]]]:
    """Yield each table of a type with its keys; `path` is its name in a header."""
    place = brackets.format(path) if path else _TOP
    match kind:
        case inspect.UnionType(types=types):
            for one in types:
                yield from _tables(one, path, brackets)
        case inspect.StructType(fields=fields):
            inner = {
                one.encode_name: [*_tables(one.type, f"{path}.{one.encode_name}" if path else one.encode_name)]
                for one in fields
            }
            # A table of the whole file has its own header, which may be anywhere.
            yield place, {name for name, tables in inner.items() if path or not tables}
            for tables in inner.values():
                yield from tables
        case inspect.VarTupleType(item_type=item):
            yield from _tables(item, path, "[[{}]]")
        case inspect.DictType(value_type=item):
            yield from _tables(item, f"{path}.NAME")
        case inspect.CustomType(cls=cls) if cls is StepSpec:
            yield place, {one.encode_name for step in STEP_TYPES.values() for one in struct_fields(cast(Any, step))}
            for key in TRIGGERS:
                yield f"{place} as trigger = {{ {key} = ... }}", {key}


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
