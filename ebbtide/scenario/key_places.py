"""Says in which tables of a scenario file a key belongs, for a key that stands in another one.

A key after the header of a table is in that table, so a key is easily in the wrong one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import inspect

from ebbtide.scenario.model import Scenario
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.steps.table import STEP_TYPES
from ebbtide.scenario.triggers import TRIGGERS
from ebbtide.struct_fields import struct_fields

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
