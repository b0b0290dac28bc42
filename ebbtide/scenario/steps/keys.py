"""The keys that each kind of step needs, and the keys it may have.

The fields of its struct decide both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from ebbtide.scenario.steps.step import BaseStep
from ebbtide.scenario.steps.table import OPTIONAL_KINDS, STEP_TYPES, StepKind
from ebbtide.struct_fields import struct_fields

COMMON_KEYS = ("name", "trigger", "deadline_s", "optional")
"""The keys of every kind of step."""


def _words_of(kind: type[BaseStep]) -> Iterator[tuple[str, str]]:
    """What stands for each key of a kind: the words of the struct that declares it, else those of its type."""
    own = {key: words for base in reversed(kind.__mro__) for key, words in vars(base).get("shown", {}).items()}
    for field in struct_fields(kind):
        yield field.encode_name, own.get(field.encode_name) or _words_of_type(field.type)


def _words_of_type(type_: Any) -> str:
    if get_origin(type_) in (Union, UnionType):
        type_ = get_args(type_)[0]
    if get_origin(type_) is Literal:
        *most, last = get_args(type_)
        return f"{', '.join(most)} or {last}" if most else str(last)
    return str(type_.shown)


SHOWN: Mapping[StepKind, Mapping[str, str]] = {word: dict(_words_of(kind)) for word, kind in STEP_TYPES.items()}
"""What stands for each key of a kind, in messages, helps and docs."""


def keys_of(kind: StepKind) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the keys that a step of this kind needs, and the keys that it may have."""
    fields = struct_fields(STEP_TYPES[kind])
    own = [one for one in fields if one.encode_name not in COMMON_KEYS]
    common = [one for one in fields if one.encode_name in COMMON_KEYS]
    by_order = [one for one in (*own, *common) if one.encode_name != "optional" or kind in OPTIONAL_KINDS]
    needed = tuple(one.encode_name for one in by_order if one.required)
    return needed, tuple(one.encode_name for one in by_order if not one.required)


def types_of(kind: StepKind) -> dict[str, str]:
    """The type of each key of a kind, in words."""
    return {one.encode_name: str(one.type) for one in struct_fields(STEP_TYPES[kind])}
