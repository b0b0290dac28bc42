"""Parts of a scenario from plain values, as TOML and JSON have them, and back: texts such as `2s` are read once."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from ebbtide.errors import UsageError
from ebbtide.scenario.words import Duration, Rate

T = TypeVar("T")


def from_plain(value: Any, kind: type[T]) -> T:
    """The part of a scenario that `value` describes. Raises `msgspec.ValidationError` where it does not fit."""
    return msgspec.convert(value, kind, dec_hook=read_text)


def to_plain(part: msgspec.Struct) -> Any:
    """A part of a scenario as plain values, texts as they were read."""
    return msgspec.to_builtins(part, enc_hook=write_text)


def read_text(kind: type, text: Any) -> Any:
    """msgspec's `dec_hook` of everything that holds parts of a scenario. Raises `ValueError`."""
    if kind not in (Duration, Rate) or not isinstance(text, str):
        raise NotImplementedError(f"no {kind.__name__} is read from {text!r}")
    try:
        return kind(text)
    except UsageError as error:
        raise ValueError(f"{error.what}: {error.got}") from None


def write_text(value: Any) -> str:
    """msgspec's `enc_hook` of the same."""
    if not isinstance(value, Duration | Rate):
        raise NotImplementedError(f"{type(value).__name__} is not written")
    return str(value)
