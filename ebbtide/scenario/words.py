"""Durations and rates as scenario files write them."""

from __future__ import annotations

import re

from ebbtide.errors import UsageError

RATE_BYTES_S_MIN = 1_000
RATE_BYTES_S_MAX = 12_500_000

_RATE = re.compile(r"(\d+(?:\.\d+)?)([km])bit")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")


def whole_number(text: str) -> int | None:
    """The number that up to nine digits make; None for any other text, such as a superscript two."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


def duration_s(text: str) -> float:
    """Seconds of `500ms`, `2s`, `1.5m`; raises `UsageError`."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError("not a duration", got=repr(text), allowed="a number with its unit: 500ms, 2s, 1m")
    return float(match[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0}[match[2]]


def rate_bytes_s(text: str) -> int:
    """Bytes a second of `256kbit`, `10mbit`; raises `UsageError`."""
    match = _RATE.fullmatch(text.strip())
    rate = 0 if match is None else int(float(match[1]) * {"k": 1_000, "m": 1_000_000}[match[2]] / 8)
    if not RATE_BYTES_S_MIN <= rate <= RATE_BYTES_S_MAX:
        raise UsageError("not a rate", got=repr(text), allowed="8kbit to 100mbit, e.g. 256kbit")
    return rate
