"""Converts parts of a scenario from and to plain values.

TOML and JSON have plain values. Texts such as `2s` are read once. The key `step` of a step's
table names its kind. A step is written with every key that any kind has; a key that its kind lacks is unset. All
readers of recorded scenarios expect this. A trigger is a table of one key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast, get_origin

import msgspec

from ebbtide.errors import UsageError
from ebbtide.scenario.steps.step import StepSpec, struct_fields
from ebbtide.scenario.steps.table import STEP_TYPES
from ebbtide.scenario.triggers import TRIGGERS, Trigger
from ebbtide.scenario.words import ParsedText

T = TypeVar("T")

BROKER = re.compile(r"\bbroker\((\d+)\)")

_EARLY = (
    *("step", "name", "target", "groups", "from", "to", "mode", "times", "period", "partition", "replicas", "cancel"),
    *("type", "resource", "config", "value", "delete", "feature", "level", "topic", "expect_error", "api", "direction"),
    *("delay", "rate"),
)
"""The keys of 0.1.0 in the order in which it wrote them, which grew with the kinds. A scenario is always written in the
same bytes, so this order stays. A key that a kind brings later needs no place here."""
_LAST = ("trigger", "deadline_s", "optional")


_FIELDS = {one.encode_name: one.type for kind in STEP_TYPES.values() for one in struct_fields(kind)}
_LISTS = {key for key, type_ in _FIELDS.items() if get_origin(type_) is tuple}


STEP_KEYS = (*_EARLY, *(key for key in _FIELDS if key not in (*_EARLY, *_LAST)), *_LAST)
"""The keys of all kinds of step, in the order in which they are written."""


def from_plain(value: Any, kind: type[T]) -> T:
    """Return the part of a scenario that `value` describes.

    Raises `msgspec.ValidationError` if the value does not fit.
    """
    return msgspec.convert(value, kind, dec_hook=read_part)


def read_part(kind: type, value: Any) -> Any:
    """Convert one value for msgspec, as the `dec_hook` of parts of a scenario.

    Raises `ValueError`.
    """
    if kind is StepSpec and isinstance(value, Mapping):
        return _read_step(value)
    if kind is Trigger and isinstance(value, Mapping):
        return _read_trigger(value)
    if not issubclass(kind, ParsedText) or not isinstance(value, str):
        raise NotImplementedError(f"no {kind.__name__} is read from {value!r}")
    try:
        return kind(value)
    except UsageError as error:
        raise ValueError(f"{error.what}: {error.got}") from None


def to_plain(part: Any) -> Any:
    """Return a part of a scenario, or its holder, as plain values.

    Texts are as they were read.
    """
    if isinstance(part, StepSpec):
        return {**{key: [] if key in _LISTS else None for key in STEP_KEYS}, "step": part.step, **_fields(part)}
    if isinstance(part, Trigger):
        value = _fields(part)
        return {key: (value[part.bare] if part.bare else value) if key == part.key else None for key in TRIGGERS}
    if isinstance(part, msgspec.Struct):
        tag = part.__struct_config__.tag
        return {**({} if tag is None else {str(part.__struct_config__.tag_field): tag}), **_fields(part)}
    if isinstance(part, ParsedText):
        return str(part)
    if isinstance(part, Mapping):
        return {key: to_plain(one) for key, one in part.items()}
    return [to_plain(one) for one in part] if isinstance(part, list | tuple) else part


def with_texts(step: StepSpec, change: Callable[[str], str]) -> StepSpec:
    """Return the step with each of its texts changed: its roles, partitions and those of its trigger."""

    def walk(value: Any) -> Any:
        if isinstance(value, str):
            return change(value)
        if isinstance(value, dict):
            return {key: walk(one) for key, one in value.items()}
        return [walk(one) for one in value] if isinstance(value, list | tuple) else value

    return from_plain(walk(to_plain(step)), StepSpec)


def texts_of(step: StepSpec) -> list[str]:
    """Return every text of a step: its roles, partitions and those of its trigger."""
    texts: list[str] = []

    def note(text: str) -> str:
        texts.append(text)
        return text

    with_texts(step, note)
    return texts


def rename_brokers(step: StepSpec, new_ids: Mapping[int, int]) -> StepSpec:
    """Return the step with `new_ids` applied wherever it names a broker by id; an id that it lacks stays."""
    return with_texts(step, lambda text: BROKER.sub(lambda id: f"broker({new_ids.get(int(id[1]), id[1])})", text))


def set_keys(step: Mapping[str, object], kind: type[msgspec.Struct]) -> dict[str, object]:
    """Return the keys of a plain step that say something.

    Keys of other kinds are unset, empty or false, and say nothing.
    """
    own = {field.encode_name for field in struct_fields(kind)}
    return {key: value for key, value in step.items() if key in own or is_set(value)}


def is_set(value: object) -> bool:
    """Whether a plain value says something: it is not null, not false and not an empty list. 0 says something."""
    return value is not None and value is not False and value not in ([], ())


def _read_step(value: Mapping[str, object]) -> StepSpec:
    kind = STEP_TYPES.get(str(value.get("step")))
    if kind is None:
        raise ValueError(f"no kind of step: {value.get('step')!r}")
    return cast(StepSpec, from_plain(set_keys(value, kind), kind))


def _read_trigger(value: Mapping[str, object]) -> Trigger:
    told = {key: one for key, one in value.items() if one is not None}
    if len(told) != 1 or not told.keys() <= TRIGGERS.keys():
        raise ValueError(f"not a trigger: {', '.join(told) or 'no key'}")
    ((key, one),) = told.items()
    kind = TRIGGERS[key]
    return from_plain({kind.bare: one} if kind.bare else one, kind)


def _fields(part: Any) -> dict[str, object]:
    return {field.encode_name: to_plain(getattr(part, field.name)) for field in struct_fields(part.__class__)}
