"""Small words of the scenario vocabulary that have a grammar: durations and release numbers."""

from __future__ import annotations

import re

from packaging.version import InvalidVersion, Version

from harness.errors import UsageError

OLDEST_KAFKA = Version("3.3")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")


def duration_s(text: str) -> float:
    """Seconds of `500ms`, `2s`, `1.5m`; raises `UsageError`."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError("not a duration", got=repr(text), allowed="a number with its unit: 500ms, 2s, 1m")
    return float(match[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0}[match[2]]


def version(text: str) -> Version:
    """A Kafka release number; raises `UsageError`."""
    try:
        parsed = Version(text)
    except InvalidVersion:
        parsed = Version("0")
    if parsed < OLDEST_KAFKA or len(parsed.release) != 3:
        raise UsageError(
            "not a Kafka release that Ebbtide runs",
            got=repr(text),
            allowed=f"a release number such as 3.9.1, from {OLDEST_KAFKA}.0 on (the first production KRaft)",
        )
    return parsed
