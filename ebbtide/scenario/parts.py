"""The parts of a scenario file that could be read, and those that could not.

The checks of a scenario read its parts. A field whose value does not fit its type is missing: reading it raises an
AttributeError, which ends the check (`as_far_as_read`). No check therefore reports a value that the file does not have,
and every other mistake of the file is reported at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec

from ebbtide.errors import UsageError
from ebbtide.scenario.mismatches import field_types, is_within, meant_keys, mismatches
from ebbtide.scenario.model import ClusterSpec, ConsumerSpec, Prediction, ProducerSpec, Scenario, TopicSpec
from ebbtide.scenario.plain_values import from_plain
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.steps.table import STEP_TYPES
from ebbtide.scenario.triggers import TRIGGERS, Trigger

MAX_BROKERS = 6
"""As many as a small machine carries, at some 300 MB each, and enough for RF 6 with min ISR 4. The specification's
explorer, which starts no process, takes one more."""


class StepPart(msgspec.Struct, frozen=True, kw_only=True):
    """A step as far as it was read. `step` is None where its kind is not known.

    `values`: what was read by key, whatever the kind. `triggers`: the step's, or each of several that it has by
    mistake. `unread`: the keys that could not be read.
    """

    step: StepSpec | None
    values: Mapping[str, object]
    triggers: tuple[Trigger, ...] = ()
    unread: frozenset[str] = frozenset()

    @classmethod
    def of(cls, step: StepSpec) -> StepPart:
        """All of a step."""
        values = {one.encode_name: getattr(step, one.name) for one in msgspec.structs.fields(cast(Any, step))}
        return cls(step=step, values=values, triggers=() if step.trigger is None else (step.trigger,))

    @property
    def name(self) -> str | None:
        """Its name, where it has one that was read."""
        return cast(str | None, self.values.get("name"))


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a scenario; a part that could not be read is None.

    A part may lack fields that could not be read.
    """

    name: str | None
    kafka: tuple[str, ...] | None
    settle_s: float | None
    cluster: ClusterSpec | None
    topics: Mapping[str, TopicSpec | None] | None
    producers: tuple[ProducerSpec | None, ...] | None
    consumers: tuple[ConsumerSpec | None, ...] | None
    steps: tuple[StepPart, ...] | None
    predictions: tuple[Prediction | None, ...] | None

    @classmethod
    def of(cls, scenario: Scenario) -> Parts:
        """All parts of a scenario that was read as a whole."""
        fields = {name: getattr(scenario, name) for name in cls.__struct_fields__ if name != "steps"}
        return cls(**fields, steps=tuple(map(StepPart.of, scenario.steps)))

    @property
    def brokers(self) -> int:
        """Return how many brokers there can be, as far as is known."""
        return MAX_BROKERS if self.cluster is None else getattr(self.cluster, "brokers", MAX_BROKERS)

    def topic(self, name: str) -> TopicSpec | None:
        """The topic of this name, where there is one that was read."""
        return (self.topics or {}).get(name)

    def every_step(self) -> Iterator[StepSpec] | None:
        """The steps; None where one is of no known kind."""
        if self.steps is None or any(one.step is None for one in self.steps):
            return None
        return (one.step for one in self.steps if one.step is not None)


def as_far_as_read(problems: Iterable[UsageError]) -> Iterator[UsageError]:
    """The problems that a check finds until it reads a field that could not be read."""
    try:
        yield from problems
    except AttributeError as error:
        if not (isinstance(error.obj, msgspec.Struct) and error.name in error.obj.__struct_fields__):
            raise


def has_value(part: object, name: str) -> bool:
    """Whether the file has a value for this field, also one that could not be read."""
    try:
        return getattr(part, name) not in (None, (), False)
    except AttributeError:
        return True


def read_parts(raw: dict[str, Any]) -> tuple[Parts, list[UsageError]]:
    """The parts of a decoded file, and every place where it does not fit the types."""
    problems = mismatches(raw, Scenario)
    reader = _PartReader([str(one.where) for one in problems])
    header = reader.values({key: raw[key] for key in ("name", "kafka", "settle_s") if key in raw}, Scenario, "")
    topics = raw.get("topics")
    parts = Parts(
        name=header.get("name"),
        kafka=header.get("kafka"),
        settle_s=header.get("settle_s"),
        cluster=reader.struct(raw.get("cluster", {}), ClusterSpec, "cluster"),
        topics={name: reader.struct(one, TopicSpec, f"topics.{name}") for name, one in topics.items()}
        if isinstance(topics, dict)
        else None,
        producers=reader.structs(raw.get("producers"), ProducerSpec, "producers"),
        consumers=reader.structs(raw.get("consumers", []), ConsumerSpec, "consumers"),
        steps=reader.steps(raw.get("steps", [])),
        predictions=reader.structs(raw.get("predictions"), Prediction, "predictions"),
    )
    return parts, problems


class _PartReader:
    """Reads what fits its type, given the places that do not."""

    def __init__(self, places: Collection[str]) -> None:
        self._places = places

    def structs(self, raw: Any, kind: Any, where: str) -> Any:
        """A table each; None where there is no list."""
        if not isinstance(raw, list):
            return None
        return tuple(self.struct(one, kind, f"{where}[{index}]") for index, one in enumerate(raw))

    def struct(self, raw: Any, kind: Any, where: str) -> Any:
        """A table without the fields that cannot be read; None where there is no table."""
        if not isinstance(raw, dict):
            return None
        return _build_struct(kind, self.values(raw, kind, where), {*meant_keys(raw, field_types(kind)), *raw.keys()})

    def steps(self, raw: Any) -> tuple[StepPart, ...] | None:
        """The steps; None where there is no list of tables."""
        if not isinstance(raw, list):
            return None
        return tuple(self._step(one, f"steps[{index}]") for index, one in enumerate(raw))

    def values(self, raw: Mapping[str, Any], kind: Any, where: str) -> dict[str, Any]:
        """Return the values that can be read, by key."""
        found = {}
        for key, type_ in field_types(kind).items():
            at = f"{where}.{key}" if where else key
            if key not in raw or at in self._places:
                continue
            if self._is_readable(at):
                found[key] = from_plain(raw[key], type_)
            elif isinstance(raw[key], dict) and isinstance(type_, type) and issubclass(type_, msgspec.Struct):
                found[key] = self.struct(raw[key], type_, at)
        return found

    def _step(self, raw: Any, where: str) -> StepPart:
        if not isinstance(raw, dict):
            return StepPart(step=None, values={}, unread=frozenset({"step", "name"}))
        kind = STEP_TYPES.get(str(raw.get("step")))
        values = self.values(raw, StepSpec, where)
        triggers = tuple(self._triggers(raw.get("trigger"), f"{where}.trigger"))
        values.pop("trigger", None)
        if len(triggers) == 1 and f"{where}.trigger" not in self._places:
            values["trigger"] = triggers[0]
        told = {*raw.keys(), *meant_keys(raw, field_types(StepSpec))}
        step = None if kind is None else _build_struct(kind, values, told)
        return StepPart(step=step, values=values, triggers=triggers, unread=frozenset(told - values.keys() - {"step"}))

    def _triggers(self, raw: Any, where: str) -> Iterator[Trigger]:
        for key, value in raw.items() if isinstance(raw, dict) else ():
            kind = cast(Any, TRIGGERS.get(key))
            if kind is None:
                continue
            if not kind.bare:
                trigger = self.struct(value, kind, f"{where}.{key}")
            else:
                trigger = from_plain({kind.bare: value}, kind) if self._is_readable(f"{where}.{key}") else None
            if trigger is not None:
                yield trigger

    def _is_readable(self, where: str) -> bool:
        return not any(is_within(place, where) for place in self._places)


def _build_struct(kind: Any, values: Mapping[str, Any], told: Collection[str]) -> Any:
    """Return a struct without the fields that could not be read.

    These are the fields that the file names and that are not among the values.
    """
    fields = msgspec.structs.fields(kind)
    read = {one.name: values[one.encode_name] for one in fields if one.encode_name in values}
    lacking = [one for one in fields if one.name not in read and (one.required or one.encode_name in told)]
    part = kind(**read, **{one.name: None for one in lacking})
    for one in lacking:
        getattr(kind, one.name).__delete__(part)
    return part
