"""Durations as scenario files write them."""

from __future__ import annotations

import re

from harness.errors import UsageError

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")


def duration_s(text: str) -> float:
    """Seconds of `500ms`, `2s`, `1.5m`; raises `UsageError`."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError("not a duration", got=repr(text), allowed="a number with its unit: 500ms, 2s, 1m")
    return float(match[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0}[match[2]]


def budget_s(text: str) -> float:
    """Seconds of `2h`, `90m`, `30s`; raises `UsageError`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([hms])", text.strip())
    if match is None or float(match[1]) == 0:
        raise UsageError("not a budget of time", got=repr(text), allowed="a number with its unit: 2h, 90m, 30s")
    return float(match[1]) * {"h": 3600.0, "m": 60.0, "s": 1.0}[match[2]]
