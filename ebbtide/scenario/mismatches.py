"""Finds every place where decoded TOML does not fit a scenario's types.

`msgspec.convert` stops at its first error; a person who made ten mistakes wants to see ten. This walker follows the
same types, so that the vocabulary is written down once, in `ebbtide.scenario.model` and in the steps and triggers.

Checks every text of a scenario file: names, titles, and what goes on to Kafka, a terminal or a page.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from msgspec import inspect

from ebbtide.errors import UsageError
from ebbtide.scenario.absent_words import absent_word
from ebbtide.scenario.allowed_values import (
    describe,
    describe_missing,
    is_64_bits,
    meaning_hint,
    toml_value,
    without_none,
)
from ebbtide.scenario.key_places import (
    kafka_name_hint,
    kafka_place_hint,
    kafka_table_hint,
    name_with_dots,
    place_of_key,
)
from ebbtide.scenario.model import NODE_ROLES
from ebbtide.scenario.plain_values import is_set
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.steps.table import SHOWN, STEP_TYPES, keys_of
from ebbtide.scenario.triggers import TRIGGERS, Trigger
from ebbtide.shown_text import HIDDEN, has_controls, names_secret
from ebbtide.suggestions import allowed_words, bracketed_suggestion, meant_name

_KINDS_PAGE = "see docs/scenario-steps.md"


def mismatches(value: Any, kind: type, where: str = "", *, most: int | None = None) -> list[UsageError]:
    """Return every place where `value` does not fit `kind`, or the first `most`; empty if it fits.

    `where` is the place of `value` in its file.
    """
    return list(islice(_walk(value, _type_info(kind), where), most))


def is_within(where: str, parent: str) -> bool:
    """Whether a place in a file is this one, or inside it."""
    return where == parent or where.startswith((parent + ".", parent + "["))


def meant_keys(value: Collection[str], known: Collection[str]) -> set[str]:
    """The keys that were probably meant by those which are not known."""
    names = sorted(known)
    return {meant for key in value if key not in known and (meant := meant_name(key, names)) is not None}


_type_info = functools.cache(inspect.type_info)


def _walk(value: Any, kind: inspect.Type, where: str) -> Iterator[UsageError]:
    kind = without_none(kind)
    match kind:
        case inspect.StructType() if isinstance(value, dict):
            yield from _struct(value, kind, where)
        case inspect.VarTupleType(item_type=item) if isinstance(value, list):
            for index, element in enumerate(value):
                yield from _walk(element, item, f"{where}[{index}]")
        case inspect.DictType(value_type=item) if isinstance(value, dict):
            for key, element in value.items():
                yield from _walk(element, item, f"{where}.{key}")
        case inspect.CustomType(cls=cls) if cls is StepSpec and isinstance(value, dict):
            yield from _step(value, where)
        case inspect.CustomType(cls=cls) if cls is Trigger and isinstance(value, dict):
            yield from _trigger(value, where)
        case inspect.CustomType(cls=cls) if cls not in (StepSpec, Trigger) and isinstance(value, str):
            yield from _text(value, cls, where)
        case _ if not _fits(value, kind):
            hidden = names_secret(where)
            allowed = describe(kind) + ("" if hidden else meaning_hint(value, kind, where))
            got = HIDDEN if hidden else toml_value(value)
            yield UsageError("wrong value", where=where, got=got, allowed=allowed)


def _struct(value: Mapping[str, object], kind: inspect.StructType, where: str) -> Iterator[UsageError]:
    fields = {field.encode_name: field for field in kind.fields}
    for key, element in value.items():
        if key in fields:
            yield from _walk(element, fields[key].type, _at(where, key))
        else:
            yield _unknown_key_of_table(key, element, where, fields)
    meant = meant_keys(value, fields)
    for name, field in fields.items():
        if field.required and name not in value and name not in meant:
            yield UsageError("missing key", where=_at(where, name), allowed=describe_missing(name, field.type, where))


def _step(value: Mapping[str, object], where: str) -> Iterator[UsageError]:
    """The keys of its kind; where the kind is not known, those of any kind."""
    word = str(value.get("step"))
    known = word in STEP_TYPES
    if "step" not in value:
        yield UsageError(
            "missing key", where=_at(where, "step"), allowed=f"one of {len(STEP_TYPES)} kinds, {_KINDS_PAGE}"
        )
    elif not known:
        allowed = f"{allowed_words(word, list(STEP_TYPES))}, {_KINDS_PAGE}"
        sentence = absent_word(word, "step")
        what = "wrong value" if sentence is None else f"unknown kind of step: {sentence}"
        yield UsageError(what, where=_at(where, "step"), got=toml_value(value["step"]), allowed=allowed)
    fields = {**_every_field(), **(_fields_of(STEP_TYPES[word]) if known else {})}
    needed, possible = keys_of(word) if known else ((), tuple(fields))
    own = {*needed, *possible}
    for key, element in value.items():
        if key == "step":
            continue
        if key not in fields:
            yield (
                _unknown_key(key, element, where, {"step", *own}, place="steps")
                if known
                else _unknown_key_of_any_step(key, where)
            )
        elif key not in own and is_set(element):
            yield UsageError(f"{word} has no {key}", where=_at(where, key), allowed=", ".join(sorted(own)))
        else:
            yield from _walk(element, fields[key].type, _at(where, key))
    meant = meant_keys([key for key in value if key != "step"], fields)
    for key in needed:
        if key not in value and key not in meant:
            yield UsageError("missing key", where=_at(where, key), allowed=SHOWN[word][key])


def _trigger(value: Mapping[str, object], where: str) -> Iterator[UsageError]:
    for key, element in value.items():
        if key not in TRIGGERS:
            yield _unknown_key(key, element, where, TRIGGERS, place="trigger")
            continue
        kind = TRIGGERS[key]
        bare = _fields_of(kind)[kind.bare].type if kind.bare else _type_info(cast(Any, kind))
        yield from _walk(element, bare, _at(where, key))
    told = [key for key in value if key in TRIGGERS]
    meant = meant_keys(value, TRIGGERS)
    if len({*told, *meant}) != 1:
        allowed = "exactly one of " + ", ".join(TRIGGERS)
        yield UsageError("a trigger asks one thing", where=where, got=", ".join(told) or "none", allowed=allowed)


def _text(value: str, kind: type, where: str) -> Iterator[UsageError]:
    try:
        kind(value)
    except UsageError as error:
        yield UsageError(error.what, where=where, got=error.got, allowed=error.allowed)


def _fields_of(kind: Any) -> Mapping[str, inspect.Field]:
    info = _type_info(kind)
    assert isinstance(info, inspect.StructType)
    return {field.encode_name: field for field in info.fields}


@functools.cache
def _every_field() -> Mapping[str, inspect.Field]:
    """The keys of all kinds of step."""
    return {key: field for kind in STEP_TYPES.values() for key, field in _fields_of(kind).items()}


def _at(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _tables_of_settings(fields: Mapping[str, inspect.Field]) -> list[str]:
    """Return the keys whose tables have any names, with texts as their values: the names are Kafka's."""
    kinds = {name: without_none(field.type) for name, field in fields.items()}
    return [
        name
        for name, kind in kinds.items()
        if isinstance(kind, inspect.DictType) and isinstance(kind.value_type, inspect.StrType)
    ]


def _unknown_key_of_table(key: str, value: Any, where: str, fields: Mapping[str, inspect.Field]) -> UsageError:
    """Report a key that a table with these fields does not have; it may be a name of Kafka, or a table's name."""
    name = name_with_dots(key, value)
    kinds = {one: without_none(field.type) for one, field in fields.items()} if isinstance(value, dict) else {}
    tables = [one for one, kind in kinds.items() if isinstance(kind, inspect.StructType | inspect.DictType)]
    kafka_hint = kafka_place_hint(name, fields)
    if kafka_hint is None and not _is_own_table(key, value, tables):
        kafka_hint = kafka_table_hint(name, _tables_of_settings(fields))
    place = where.partition(".")[0].partition("[")[0] or "file"
    return _unknown_key(key, value, where, fields, kafka_hint, meant_name(key, tables), place=place)


def _is_own_table(key: str, value: Any, tables: Sequence[str]) -> bool:
    """Whether the author wrote a table with a wrong name or in a wrong place.

    TOML also makes a table of a name of Kafka without quotes: of `controller.quorum.voters` that of `controller`, which
    is only the first word of `controller_properties`.
    """
    if not isinstance(value, dict):
        return False
    has_quoted_names = any("." in name for name in value)
    meant = meant_name(key, tables)
    is_misspelt = meant is not None and (has_quoted_names or not meant.startswith(f"{key}_"))
    return is_misspelt or place_of_key(key) is not None


def _unknown_key(
    key: str,
    value: Any,
    where: str,
    known: Collection[str],
    other_hint: str | None = None,
    table: str | None = None,
    *,
    place: str,
) -> UsageError:
    """Report a key that its table does not have.

    `other_hint` is about a name of Kafka that no key of the table means. `table` is the table that was probably meant.
    `place`: the kind of the table, for words from other tools.
    """
    names, name = sorted(known), name_with_dots(key, value)
    if (hint := kafka_name_hint(name, known) or absent_word(name, place) or other_hint) is not None:
        return UsageError(f"unknown key: {hint}", where=_at(where, key), allowed=", ".join(names))
    meant = table or meant_name(key, names)
    # The beginning of a key of this table is a slip here, also where another table has it: `rate` is `rate_per_s`.
    what = "unknown key" if meant is not None and meant.startswith(key) else _what_is_unknown(key)
    return UsageError(what, where=_at(where, key), allowed=", ".join(names) + bracketed_suggestion(meant or key, names))


def _unknown_key_of_any_step(key: str, where: str) -> UsageError:
    """Report a key that no kind of step has, where the kind is not known; all kinds together have many keys."""
    allowed = f"{allowed_words(key, sorted(_every_field()))}, {_KINDS_PAGE}"
    sentence = absent_word(key, "steps")
    what = _what_is_unknown(key) if sentence is None else f"unknown key: {sentence}"
    return UsageError(what, where=_at(where, key), allowed=allowed)


def _what_is_unknown(key: str) -> str:
    """Say that a key is unknown, and where it belongs if another table has it."""
    place = place_of_key(key)
    return "unknown key" if place is None else f"unknown key here: it belongs {place}"


def _fits(value: Any, kind: inspect.Type) -> bool:
    match kind:
        case inspect.LiteralType(values=values):
            return value in values
        case inspect.IntType() | inspect.FloatType() if isinstance(value, int):
            return not isinstance(value, bool) and is_64_bits(value)
        case inspect.FloatType():
            return isinstance(value, float) and math.isfinite(value)
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.StrType():
            return isinstance(value, str)
    return False


_ONE_LINE = frozenset({"name", "title", "kafka"})
"""Keys whose texts have one line."""
_CHECKED_ELSEWHERE = frozenset(f"{role}_properties" for role in NODE_ROLES)
"""`validate_settings` has the rules of .properties files."""
_SHOWN_MAX = 60


def validate_texts(raw: Any, where: str = "") -> Iterator[UsageError]:
    """Report each key and each text of a decoded file that has control characters.

    Descriptions may have several lines.
    """
    if isinstance(raw, dict):
        for key, value in raw.items():
            at = f"{where}.{key}" if where else key
            if has_controls(key):
                yield _controls_error(at, key)
            if key not in _CHECKED_ELSEWHERE:
                yield from validate_texts(value, at)
    elif isinstance(raw, list):
        for index, value in enumerate(raw):
            yield from validate_texts(value, f"{where}[{index}]")
    elif isinstance(raw, str) and has_controls(raw, lines=where.rpartition(".")[2] not in _ONE_LINE):
        yield _controls_error(where, raw)


def _controls_error(where: str, text: str) -> UsageError:
    return UsageError(
        "a text with control characters",
        where=where,
        got=repr(text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."),
        allowed="printable characters; descriptions may have several lines",
    )
