"""Checks decoded TOML against the scenario's types and reports every mismatch, not only the first.

`msgspec.convert` stops at its first error; a person who made ten mistakes wants to see ten. This walker
follows the same types, so that the vocabulary is written down once, in `ebbtide.scenario.model`.
"""

from __future__ import annotations

import difflib
import functools
import math
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from ebbtide.errors import UsageError

_type_info = functools.cache(inspect.type_info)


def suggestion(got: str, allowed: list[str]) -> str:
    """` (did you mean 'x'?)` for the nearest allowed word, or nothing."""
    near = difflib.get_close_matches(got, allowed, n=1, cutoff=0.6)
    return f" (did you mean '{near[0]}'?)" if near else ""


class Checked(NamedTuple):
    """`value` with every mismatch replaced by a stand-in of the right type, and the mismatches.

    `misspelt` holds the paths that unknown keys were probably meant for, `unread` those of texts that their type
    cannot read, such as a duration without a unit.
    """

    value: Any
    problems: list[UsageError]
    misspelt: frozenset[str]
    unread: frozenset[str]

    def wrong(self, where: str) -> bool:
        """Whether the value at `where` is a stand-in, or part of one: what it says, the file does not say."""
        return any(_within(where, path) for path in (*self.misspelt, *(str(one.where) for one in self.problems)))

    def unsaid(self, where: str) -> bool:
        """Whether a further problem at `where` is one of the stand-in there, and not of the file."""
        return self.wrong(where) and where not in self.unread


class _Found:
    """What a walk has found so far; see `Checked`."""

    def __init__(self) -> None:
        self.problems: list[UsageError] = []
        self.misspelt: set[str] = set()
        self.unread: set[str] = set()


def check(value: Any, model: type[msgspec.Struct]) -> Checked:
    """Every place where `value` does not fit `model`, and a value that does fit, to look for further problems in."""
    found = _Found()
    repaired = _walk(value, _type_info(model), "", found)
    return Checked(repaired, found.problems, frozenset(found.misspelt), frozenset(found.unread))


def _within(path: str, parent: str) -> bool:
    return path == parent or path.startswith((parent + ".", parent + "["))


def _walk(value: Any, kind: inspect.Type, path: str, found: _Found) -> Any:
    kind = _bare(kind)
    match kind:
        case inspect.StructType() if isinstance(value, dict):
            return _walk_struct(value, kind, path, found)
        case inspect.VarTupleType(item_type=item) if isinstance(value, list):
            return [_walk(element, item, f"{path}[{index}]", found) for index, element in enumerate(value)]
        case inspect.DictType(value_type=item) if isinstance(value, dict):
            return {key: _walk(element, item, f"{path}.{key}", found) for key, element in value.items()}
    if isinstance(kind, inspect.CustomType) and isinstance(value, str):
        return _walk_text(value, kind, path, found)
    if _fits(value, kind):
        return value
    hint = ""
    if isinstance(kind, inspect.LiteralType):
        hint = suggestion(str(value), [str(word) for word in kind.values])
    if isinstance(kind, inspect.StrType) and isinstance(value, dict):
        hint = f' (dots make tables: a name with dots is quoted, "{_dotted(path.rpartition(".")[2], value)}")'
    found.problems.append(UsageError("wrong value", where=path, got=_got(value), allowed=_describe(kind) + hint))
    return _stand_in(kind)


def _walk_text(value: str, kind: inspect.CustomType, path: str, found: _Found) -> str | None:
    """A text that its type reads; None for any other."""
    try:
        kind.cls(value)
    except UsageError as error:
        found.problems.append(UsageError(error.what, where=path, got=error.got, allowed=error.allowed))
        found.unread.add(path)
        return None
    return value


def _dotted(name: str, value: Any) -> str:
    """The name that TOML took apart."""
    while isinstance(value, dict) and value:
        key, value = next(iter(value.items()))
        name = f"{name}.{key}"
    return name


def _walk_struct(value: dict[str, Any], kind: inspect.StructType, path: str, found: _Found) -> Any:
    fields = {field.encode_name: field for field in kind.fields}
    prefix = f"{path}." if path else ""
    repaired = {}
    for key, element in value.items():
        if key in fields:
            fitting = _walk(element, fields[key].type, prefix + key, found)
            at_fault = bool(found.problems) and found.problems[-1].where == prefix + key
            if fields[key].required or not at_fault:
                repaired[key] = fitting  # else the default stands in
        else:
            names = sorted(fields)
            allowed = ", ".join(names) + suggestion(key, names)
            near = difflib.get_close_matches(key, names, n=1, cutoff=0.6)
            found.misspelt.update(prefix + name for name in near if name not in value)
            found.problems.append(UsageError("unknown key", where=prefix + key, allowed=allowed))
    for name, field in fields.items():
        if field.required and name not in value:
            found.problems.append(UsageError("missing key", where=prefix + name, allowed=_describe(_bare(field.type))))
            repaired[name] = _stand_in(_bare(field.type))
    return repaired


def _bare(kind: inspect.Type) -> inspect.Type:
    """`X` of `X | None`; a scenario file has no other unions."""
    if isinstance(kind, inspect.UnionType):
        return next(one for one in kind.types if not isinstance(one, inspect.NoneType))
    return kind


def _fits(value: Any, kind: inspect.Type) -> bool:
    match kind:
        case inspect.LiteralType(values=values):
            return value in values
        case inspect.IntType() | inspect.FloatType() if isinstance(value, int):
            return not isinstance(value, bool) and _is_64_bits(value)
        case inspect.FloatType():
            return isinstance(value, float) and math.isfinite(value)
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.StrType():
            return isinstance(value, str)
    return False


def _is_64_bits(value: int) -> bool:
    """As a whole number of TOML is; its decoder takes longer ones."""
    return -(2**63) <= value < 2**63


def _got(value: Any) -> str:
    """As it stands in the file, or nearly."""
    if isinstance(value, bool):
        return str(value).lower()
    return "more than 64 bits" if isinstance(value, int) and not _is_64_bits(value) else repr(value)


def _stand_in(kind: inspect.Type) -> Any:
    match kind:
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.IntType() | inspect.FloatType():
            return 1
        case inspect.BoolType():
            return False
        case inspect.StrType():
            return ""
        case inspect.VarTupleType():
            return []
        case inspect.StructType(fields=fields):
            return {field.encode_name: _stand_in(_bare(field.type)) for field in fields if field.required}
    return {}


def _describe(kind: inspect.Type) -> str:
    match kind:
        case inspect.LiteralType(values=values):
            return " | ".join(str(word) for word in values)
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
    return "a table"
