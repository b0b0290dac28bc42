"""The parts of a scenario file that could be read, and those that could not.

A file is checked in two phases. The first compares it with the types (`mismatches`). The second checks what was read:
each rule takes the fields that it reads as keyword arguments, and `TablePart.check` skips a rule if one of these could
not be read. No rule therefore sees a value that the file does not have, and every other mistake is reported at once.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin

import msgspec

from ebbtide.errors import UsageError
from ebbtide.scenario.mismatches import field_types, meant_keys, places_above
from ebbtide.scenario.model import (
    ClusterSpec,
    ConsumerSpec,
    LossExpectation,
    Prediction,
    ProducerSpec,
    Scenario,
    TimeBounds,
    TopicSpec,
    UnavailabilityExpectation,
)
from ebbtide.scenario.plain_values import from_plain
from ebbtide.scenario.steps.step import BaseStep, StepSpec
from ebbtide.scenario.steps.table import STEP_TYPES, keys_of
from ebbtide.scenario.triggers import TRIGGERS
from ebbtide.struct_fields import struct_fields

MAX_BROKERS = 6
"""As many as a small machine carries, at some 300 MB each, and enough for RF 6 with min ISR 4. The specification's
explorer, which starts no process, takes one more."""

_INNER_TABLES = (LossExpectation, UnavailabilityExpectation, TimeBounds)
"""The tables that are values of a field of another table."""

Rule = Callable[..., Iterator[UsageError]]
"""A check. Its positional parameters are its context; its keyword-only parameters are the fields that it reads."""


class TablePart(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the file as far as it was read. `type` is None for a step of unknown kind.

    Fields go by their keys in the file.

    - `values`: fields that were read as a whole, and defaults of fields that the file does not name. A table in a
      table is a TablePart.
    - `torn`: lists and tables of which only some elements were read. None stands for each other element of a list.
    - `unread`: fields without a value in `values`. The file names them, or misspells them, or must name them.
    """

    type: Any
    values: Mapping[str, object]
    torn: Mapping[str, object] = {}
    unread: frozenset[str] = frozenset()

    @classmethod
    def of(cls, struct: Any) -> TablePart:
        """All of a struct."""
        values = {one.encode_name: getattr(struct, one.name) for one in struct_fields(struct.__class__)}
        nested = {key: cls.of(value) if isinstance(value, _INNER_TABLES) else value for key, value in values.items()}
        return cls(type=type(struct), values=nested)

    def get(self, key: str, otherwise: Any = None) -> Any:
        """The value of a field that was read as a whole, else `otherwise`."""
        return self.values.get(key, otherwise)

    def elements(self, key: str, otherwise: Any = ()) -> Any:
        """The elements of a field as far as they were read; None stands for each other element of a list."""
        return self.values.get(key, self.torn.get(key, otherwise))

    def has_value(self, key: str) -> bool:
        """Whether the file has a value for this field, also one that could not be read."""
        return key in self.unread or self.values.get(key) not in (None, (), False)

    def may_be(self, key: str, value: object) -> bool:
        """Whether a field has this value, or could not be read."""
        return key in self.unread or self.values.get(key) == value

    def check(self, rule: Rule, *context: Any) -> Iterator[UsageError]:
        """The problems that a rule finds; none if a field that it reads could not be read."""
        keys = _keys_read(rule)
        if self.unread.isdisjoint(keys):
            yield from rule(*context, **{name: self.values[key] for key, name in keys.items()})


class StepPart(TablePart, frozen=True, kw_only=True):
    """A step as far as it was read; for one of unknown kind, `values` has what was read by key, whatever the kind.

    - `kinds`: the kinds that it can be, by its keys; only its own if that is known.
    - `triggers`: the step's, or each of several that it has by mistake.
    """

    kinds: tuple[type[BaseStep], ...]
    triggers: tuple[TablePart, ...] = ()

    @classmethod
    def of_step(cls, step: StepSpec) -> StepPart:
        """All of a step."""
        whole = TablePart.of(step)
        triggers = () if step.trigger is None else (TablePart.of(step.trigger),)
        return cls(type=whole.type, kinds=(whole.type,), values=whole.values, triggers=triggers)

    @property
    def name(self) -> str | None:
        """Its name, where it has one that was read."""
        return cast(str | None, self.values.get("name"))

    def may_be_a(self, kind: type[BaseStep]) -> bool:
        """Whether it is of this kind, or may be."""
        return any(issubclass(each, kind) for each in self.kinds)

    @property
    def trigger(self) -> TablePart | None:
        """Its only trigger; None if it has none, or several."""
        return self.triggers[0] if len(self.triggers) == 1 else None


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a scenario; a part that could not be read is None."""

    name: str | None
    kafka: tuple[str, ...] | None
    settle_s: float | None
    cluster: TablePart | None
    topics: Mapping[str, TablePart | None] | None
    producers: tuple[TablePart | None, ...] | None
    consumers: tuple[TablePart | None, ...] | None
    steps: tuple[StepPart, ...] | None
    predictions: tuple[TablePart | None, ...] | None

    @classmethod
    def of(cls, scenario: Scenario) -> Parts:
        """All parts of a scenario that was read as a whole."""
        return cls(
            name=scenario.name,
            kafka=scenario.kafka,
            settle_s=scenario.settle_s,
            cluster=TablePart.of(scenario.cluster),
            topics={name: TablePart.of(one) for name, one in scenario.topics.items()},
            producers=tuple(map(TablePart.of, scenario.producers)),
            consumers=tuple(map(TablePart.of, scenario.consumers)),
            steps=tuple(map(StepPart.of_step, scenario.steps)),
            predictions=tuple(map(TablePart.of, scenario.predictions)),
        )

    @property
    def brokers(self) -> int:
        """Return how many brokers there can be, as far as is known; a number that no cluster has says nothing."""
        count = MAX_BROKERS if self.cluster is None else cast(int, self.cluster.get("brokers", MAX_BROKERS))
        return count if 1 <= count <= MAX_BROKERS else MAX_BROKERS

    def topic(self, name: str) -> TablePart | None:
        """The topic of this name, where there is one that was read."""
        return (self.topics or {}).get(name)

    def steps_of(self, kind: type[BaseStep]) -> Iterator[StepPart]:
        """The steps of this kind, and those that may be of it."""
        return (one for one in self.steps or () if one.may_be_a(kind))


@functools.cache
def _keys_read(rule: Rule) -> Mapping[str, str]:
    """The fields that a rule reads: its keyword-only parameters by the keys in a file (`from_` is `from`)."""
    parameters = inspect.signature(rule).parameters.values()
    return {one.name.rstrip("_"): one.name for one in parameters if one.kind is one.KEYWORD_ONLY}


def read_parts(raw: dict[str, object], mismatched: Sequence[UsageError]) -> Parts:
    """The parts of a decoded file; `mismatched` are all places where it does not fit the types."""
    reader = _PartReader({str(one.where) for one in mismatched})
    header = reader.part({key: raw[key] for key in ("name", "kafka", "settle_s") if key in raw}, Scenario, "")
    topics = raw.get("topics")
    return Parts(
        name=header.get("name"),
        kafka=header.get("kafka"),
        settle_s=header.get("settle_s"),
        cluster=reader.table(raw.get("cluster", {}), ClusterSpec, "cluster"),
        topics={name: reader.table(one, TopicSpec, f"topics.{name}") for name, one in topics.items()}
        if isinstance(topics, dict)
        else None,
        producers=reader.tables(raw.get("producers"), ProducerSpec, "producers"),
        consumers=reader.tables(raw.get("consumers", []), ConsumerSpec, "consumers"),
        steps=reader.steps(raw.get("steps", [])),
        predictions=reader.tables(raw.get("predictions"), Prediction, "predictions"),
    )


class _PartReader:
    """Reads what fits its type, given the places that do not."""

    def __init__(self, places: Collection[str]) -> None:
        self._places = places
        self._torn = {above for place in places for above in places_above(place)}
        """The wrong places, and all that they are in."""

    def tables(self, raw: Any, kind: Any, where: str) -> tuple[TablePart | None, ...] | None:
        """A part for each table of a list, None for anything else in it; None where there is no list."""
        if not isinstance(raw, list):
            return None
        return tuple(self.table(one, kind, f"{where}[{index}]") for index, one in enumerate(raw))

    def table(self, raw: Any, kind: Any, where: str) -> TablePart | None:
        """The part of a table; None where there is no table."""
        return self.part(raw, kind, where) if isinstance(raw, dict) else None

    def part(self, raw: Mapping[str, object], kind: Any, where: str) -> TablePart:
        """The part of a table."""
        read, torn = self._fields(raw, field_types(kind), where)
        return _with_defaults(kind, raw, read, torn)

    def steps(self, raw: Any) -> tuple[StepPart, ...] | None:
        """The steps; None where there is no list."""
        if not isinstance(raw, list):
            return None
        return tuple(self._step(one, f"steps[{index}]") for index, one in enumerate(raw))

    def _step(self, raw: Any, where: str) -> StepPart:
        if not isinstance(raw, dict):
            return StepPart(type=None, kinds=tuple(STEP_TYPES.values()), values={}, unread=frozenset({"name"}))
        kind = STEP_TYPES.get(str(raw.get("step")))
        types = {**field_types(StepSpec), **({} if kind is None else field_types(kind))}
        read, torn = self._fields(raw, types, where)
        triggers = tuple(self._triggers(raw.get("trigger"), f"{where}.trigger"))
        part = _with_defaults(kind or StepSpec, raw, read, torn)
        kinds = tuple(_possible_kinds(raw)) if kind is None else (kind,)
        unread = part.unread - {"step"}
        return StepPart(type=kind, kinds=kinds, values=part.values, torn=torn, unread=unread, triggers=triggers)

    def _triggers(self, raw: Any, where: str) -> Iterator[TablePart]:
        for key, value in raw.items() if isinstance(raw, dict) else ():
            kind = cast(Any, TRIGGERS.get(key))
            if kind is None:
                continue
            at = f"{where}.{key}"
            if not kind.bare and isinstance(value, dict):
                yield self.part(value, kind, at)
            elif kind.bare and self._is_readable(at):
                yield TablePart.of(from_plain({kind.bare: value}, kind))

    def _fields(
        self, raw: Mapping[str, object], types: Mapping[str, object], where: str
    ) -> tuple[dict[str, object], dict[str, object]]:
        """The fields that were read as a whole, and those of which some elements were."""
        whole: dict[str, object] = {}
        torn: dict[str, object] = {}
        for key, type_ in types.items():
            at = f"{where}.{key}" if where else key
            if key not in raw or at in self._places:
                continue
            inner = next((one for one in (type_, *get_args(type_)) if one in _INNER_TABLES), None)
            value = raw[key]
            if inner is not None and isinstance(value, dict):
                whole[key] = self.part(value, inner, at)
            elif self._is_readable(at):
                whole[key] = from_plain(value, cast(Any, type_))
            elif (some := self._some(value, type_, at)) is not None:
                torn[key] = some
        return whole, torn

    def _some(self, raw: Any, type_: Any, where: str) -> Any:
        """The elements that can be read; None if the value is neither a list nor a table, or is not in its place."""
        if get_origin(type_) in (Union, UnionType):
            type_ = get_args(type_)[0]
        if self._is_readable(where):
            return from_plain(raw, type_)
        of = get_args(type_)
        if get_origin(type_) is tuple and isinstance(raw, list):
            return tuple(self._some(one, of[0], f"{where}[{at}]") for at, one in enumerate(raw))
        if get_origin(type_) is dict and isinstance(raw, dict):
            read = {key: self._some(one, of[1], f"{where}.{key}") for key, one in raw.items()}
            return {key: one for key, one in read.items() if one is not None}
        return None

    def _is_readable(self, where: str) -> bool:
        return where not in self._torn


def _possible_kinds(raw: Mapping[str, object]) -> Iterator[type[BaseStep]]:
    """The kinds that need no other keys than those of a step, and may have all of these."""
    told = {*raw, *meant_keys(raw, field_types(StepSpec))} - {"step"}
    known = {key for key in told if key in field_types(StepSpec)}
    for word, kind in STEP_TYPES.items():
        needed, optional = keys_of(word)
        if {*needed} <= told and known <= {*needed, *optional}:
            yield kind


def _with_defaults(
    kind: Any, raw: Mapping[str, object], read: Mapping[str, object], torn: Mapping[str, object]
) -> TablePart:
    """The part with the defaults of the fields that the file does not name."""
    told = {*raw.keys(), *meant_keys(raw, field_types(kind))}
    fields = struct_fields(BaseStep if kind is StepSpec else kind)
    defaults = {one.encode_name: _default(one) for one in fields if not one.required and one.encode_name not in told}
    needed = {one.encode_name for one in fields if one.required}
    unread = frozenset((told | needed) - read.keys() - defaults.keys())
    return TablePart(type=kind, values={**defaults, **read}, torn=torn, unread=unread)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    factory = field.default_factory
    value = factory() if callable(factory) else field.default
    return TablePart.of(value) if isinstance(value, _INNER_TABLES) else value
