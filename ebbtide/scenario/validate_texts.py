"""Checks every text of a scenario file: names, titles, and what goes on to Kafka, a terminal or a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ebbtide.errors import UsageError
from ebbtide.scenario.model import NODE_ROLES
from ebbtide.shown_text import has_controls

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
