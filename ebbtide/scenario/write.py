"""Writes a scenario as TOML with every default filled in.

The file describes the whole experiment.
"""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import Any

import msgspec
import tomli_w

from ebbtide.releases.builds import number_of
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.plain_values import STEP_KEYS, to_plain
from ebbtide.scenario.steps.step import StepSpec, struct_fields
from ebbtide.scenario.triggers import Trigger
from ebbtide.scenario.words import ParsedText

_WHOLE_MAX = 1e15
COLUMNS = 80
"""How wide the lines of a brief text are, where TOML lets them be folded."""

SCENARIO = "scenario.toml"
"""The file of a run record that holds the scenario as run."""


def text_of(scenario: Scenario) -> str:
    """The TOML text; parsing it yields the same scenario."""
    return tomli_w.dumps(keys_set(scenario), multiline_strings=True)


def recorded_text_of(scenario: Scenario) -> str:
    """The TOML text in a record, with the numbers of builds: a host that does not have them can read it."""
    return text_of(msgspec.structs.replace(scenario, kafka=tuple(map(number_of, scenario.kafka))))


def brief_text_of(scenario: Scenario) -> str:
    """Return the TOML text as a person writes it, without defaults; parsing it yields the same scenario.

    Tables within a step, a topic or a prediction are in one line: `trigger = { acked = 2000 }`.
    """
    plain = _brief(scenario)
    single = {key: value for key, value in plain.items() if not _is_table(value)}
    blocks = [_block("", single)]
    for key, value in plain.items():
        if isinstance(value, list) and _is_table(value):
            blocks += [_block(f"[[{key}]]", one) for one in value]
        elif key == "topics":
            blocks += [_block(f"[topics.{_toml_key(name)}]", topic) for name, topic in value.items()]
        elif isinstance(value, dict):
            wide = {name for name, one in value.items() if isinstance(one, dict) and len(_line(name, one)) > COLUMNS}
            blocks.append(_block(f"[{key}]", {name: one for name, one in value.items() if name not in wide}))
            blocks += [_block(f"[{key}.{_toml_key(name)}]", value[name]) for name in value if name in wide]
    return "\n\n".join(blocks) + "\n"


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def _block(heading: str, table: Mapping[str, object]) -> str:
    lines = [_line(key, value) for key, value in table.items()]
    return "\n".join([heading, *lines] if heading else lines)


def _line(key: str, value: object) -> str:
    """Return a key with its value; a long sentence is folded, with a backslash before each break."""
    line = f"{_toml_key(key)} = {_inline(value, is_long=True)}"
    if isinstance(value, str) and len(line) > COLUMNS and " ".join(value.split()) == value:
        folded = wrap(_inline(value)[1:-1], COLUMNS - 3, break_long_words=False, break_on_hyphens=False)
        line = f'{_toml_key(key)} = """\\\n' + " \\\n".join(folded) + '"""'
    return line


def _inline(value: Any, *, is_long: bool = False) -> str:
    """Return a value in one line; a text of a key of its own (`is_long`) may have several."""
    if isinstance(value, dict):
        inner = ", ".join(f"{_toml_key(key)} = {_inline(one)}" for key, one in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE_MAX:
        return str(int(value))
    return tomli_w.dumps({"x": value}, multiline_strings=is_long).removeprefix("x = ").removesuffix("\n")


def _toml_key(name: str) -> str:
    return tomli_w.dumps({name: 0}).removesuffix(" = 0\n")


def _brief(part: Any) -> Any:
    if isinstance(part, msgspec.Struct):
        fields = {field.encode_name: field for field in struct_fields(type(part))}
        told = {key: _brief(getattr(part, one.name)) for key, one in fields.items() if not _is_default(part, one)}
        if isinstance(part, StepSpec):
            told["step"] = part.step
            return {key: told[key] for key in STEP_KEYS if key in told}
        if isinstance(part, Trigger):
            return {part.key: told[part.bare] if part.bare else told}
        return told
    if isinstance(part, dict):
        return {key: _brief(value) for key, value in part.items()}
    if isinstance(part, ParsedText):
        return str(part)
    return [_brief(value) for value in part] if isinstance(part, list | tuple) else part


def _is_default(part: msgspec.Struct, field: msgspec.structs.FieldInfo) -> bool:
    factory = field.default_factory
    default = factory() if callable(factory) else field.default
    return bool(getattr(part, field.name) == default)


def keys_set(part: object) -> dict[str, object]:
    """Return the plain values of a part of a scenario, without keys that are not set."""
    plain = _without_none(to_plain(part))
    assert isinstance(plain, dict)
    return plain


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(one) for key, one in value.items() if one is not None}
    if isinstance(value, list | tuple):
        return [_without_none(one) for one in value]
    return value
