"""Says in an error which values a key takes, and what a wrong one was probably meant to be."""

from __future__ import annotations

import re
from typing import Any

from msgspec import inspect

from ebbtide.errors import UsageError
from ebbtide.scenario.absent_words import absent_word
from ebbtide.scenario.key_places import kafka_name_hint, name_with_dots
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.triggers import Trigger
from ebbtide.scenario.words import Duration
from ebbtide.suggestions import bracketed_suggestion, is_short_list

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_NUMBER_MAX = 20


def without_none(kind: inspect.Type) -> inspect.Type:
    """`X` of `X | None`; a scenario file has no other unions."""
    if isinstance(kind, inspect.UnionType):
        return next(one for one in kind.types if not isinstance(one, inspect.NoneType))
    return kind


def is_64_bits(value: int) -> bool:
    """Return whether a number has at most 64 bits, as TOML demands; the decoder does not check that."""
    return -(2**63) <= value < 2**63


def toml_value(value: Any) -> str:
    """As it stands in the file, or nearly."""
    if isinstance(value, bool):
        return str(value).lower()
    return "more than 64 bits" if isinstance(value, int) and not is_64_bits(value) else repr(value)


def meaning_hint(value: Any, kind: inspect.Type, where: str) -> str:
    """Return the probable meaning in brackets, or an empty text."""
    key = where.rpartition(".")[2]
    if isinstance(value, dict) and (name := kafka_name_hint(name_with_dots(key, value), {key})) is not None:
        return f" ({name})"
    if (quoted := _other_quotes(value, kind)) is not None:
        return quoted
    match kind:
        case inspect.LiteralType(values=values):
            if str(value) == "-1" and "all" in values:
                return ' (-1 is "all")'
            if (sentence := absent_word(str(value), key)) is not None:
                return f" ({sentence})"
            return bracketed_suggestion(str(value), [str(word) for word in values])
        case inspect.VarTupleType(item_type=item) if isinstance(value, str) and _is_text(without_none(item)):
            quoted_each = ", ".join(f'"{one.strip()}"' for one in value.split(","))
            return f", such as [{quoted_each}]"
        case inspect.VarTupleType(item_type=item) if _is_table(without_none(item)):
            return f" (each element of the list begins with [[{where}]])"
        case inspect.StructType() | inspect.DictType() if isinstance(value, list):
            return f" (a table begins with [{where}{'.NAME' if isinstance(kind, inspect.DictType) else ''}])"
        case inspect.StrType() if isinstance(value, dict):
            return f' (dots make tables: a name with dots is quoted, "{name_with_dots(key, value)}")'
        case inspect.CustomType(cls=cls) if cls is Trigger:
            return f", such as {{ after = {value!r} }}" if _is_duration(value) else ", such as { acked = 1000 }"
    return ""


def _other_quotes(value: Any, kind: inspect.Type) -> str | None:
    """Return the value with quotes, or without, if the key takes it so; else None."""
    if isinstance(value, int | float) and len(shown := toml_value(value)) <= _NUMBER_MAX:
        if isinstance(kind, inspect.StrType):
            return f': "{shown}"'
        if isinstance(kind, inspect.LiteralType) and shown in kind.values:
            return f' (in quotes: "{shown}")'
    elif isinstance(value, str) and (
        _is_number(value, kind) or (isinstance(kind, inspect.BoolType) and value in ("true", "false"))
    ):
        return f" (without quotes: {value})"
    return None


def _is_number(text: str, kind: inspect.Type) -> bool:
    """Whether a text is a number that a key of this kind takes without quotes."""
    if len(text) > _NUMBER_MAX or (found := _NUMBER.fullmatch(text)) is None:
        return False
    if found[2] is not None:
        return isinstance(kind, inspect.FloatType)
    return isinstance(kind, inspect.IntType | inspect.FloatType) and is_64_bits(int(text))


def _is_text(kind: inspect.Type) -> bool:
    """Whether a value of this kind is a text, which may be the name of a role or a partition."""
    is_custom = isinstance(kind, inspect.CustomType) and kind.cls not in (StepSpec, Trigger)
    return isinstance(kind, inspect.StrType) or is_custom


def _is_table(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.StructType) or (isinstance(kind, inspect.CustomType) and kind.cls is StepSpec)


def _is_duration(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        Duration(value)
    except UsageError:
        return False
    return True


def describe_missing(name: str, kind: inspect.Type, where: str) -> str:
    """Return what a missing key takes; for tables, how they begin."""
    at = f"{where}.{name}" if where else name
    match without_none(kind):
        case inspect.VarTupleType(item_type=inspect.StructType() as item):
            return f"[[{at}]], {describe(item)}"
        case inspect.DictType(value_type=inspect.StructType()):
            return f"[{at}.NAME], a table"
        case inspect.VarTupleType(item_type=item) if _is_text(item):
            return "a list of strings in quotes"
        case known:
            return describe(known)


def describe(kind: inspect.Type) -> str:
    """Return what a key of this kind takes."""
    match kind:
        case inspect.LiteralType(values=values):
            return " | ".join(f'"{word}"' if isinstance(word, str) else str(word) for word in values)
        case inspect.CustomType(cls=cls) if cls in (StepSpec, Trigger):
            return "a table"
        case inspect.CustomType(cls=cls) if (shown := getattr(cls, "shown", None)) is not None:
            return f"a string in quotes: {shown}"
        case inspect.StrType() | inspect.CustomType():
            return "a string in quotes"
        case inspect.IntType():
            return "a whole number"
        case inspect.FloatType():
            return "a finite number"
        case inspect.BoolType():
            return "true or false"
        case inspect.VarTupleType():
            return "a list"
        case inspect.StructType(fields=fields) if needed := [one.encode_name for one in fields if one.required]:
            return f"a table with {', '.join(needed)}"
        case inspect.StructType(fields=fields) if is_short_list(names := [one.encode_name for one in fields]):
            return f"a table with some of {', '.join(names)}"
    return "a table"
