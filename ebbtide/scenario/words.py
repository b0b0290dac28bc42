"""Parses durations, rates and partitions once, when a scenario file is read."""

from __future__ import annotations

import re
from typing import ClassVar

from ebbtide.errors import UsageError
from ebbtide.logs.segments import TopicPartition

RATE_BYTES_S_MIN = 1_000
RATE_BYTES_S_MAX = 12_500_000

_RATE = re.compile(r"(\d+(?:\.\d+)?)([km])bit")
_UNITS = {"ms": "ms", "mil": "ms", "s": "s", "m": "m"}
"""How people begin the word of a unit."""
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_CLOCK_OFFSET = re.compile(r"([+-])(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def whole_number(text: str) -> int | None:
    """Return the number of a text of up to nine digits, else None.

    A superscript two is not a digit.
    """
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


class ParsedText:
    """A value that keeps the text which it was read from, and is written back as that."""

    __slots__ = ("_text",)

    shown: ClassVar[str]
    """What stands for such a value in messages and helps."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return repr(self._text)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and str(other) == self._text

    def __hash__(self) -> int:
        return hash(self._text)


class Duration(ParsedText):
    """A length of time such as `500ms`, `2s`, `1.5m`."""

    __slots__ = ("seconds",)
    shown = "how long, e.g. '500ms'"

    def __init__(self, text: str) -> None:
        """Raises `UsageError` for any other text."""
        super().__init__(text)
        match = _DURATION.fullmatch(text.strip())
        if match is None:
            allowed = "a number with its unit: 500ms, 2s, 1m" + _meant_duration(text)
            raise UsageError("not a duration", got=repr(text), allowed=allowed)
        self.seconds = float(match[1]) * _SECONDS[match[2]]


def _meant_duration(text: str) -> str:
    """Return the duration that was probably meant, in brackets; a number without a unit means seconds."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower())
    if found is None:
        return ""
    begun = (unit for begin, unit in _UNITS.items() if found[2].startswith(begin))
    unit = next(begun, None) if found[2] else "s"
    return "" if unit is None else f" (did you mean '{found[1]}{unit}'?)"


CLOCK_OFFSET_S_MIN = 1.0
CLOCK_OFFSET_S_MAX = 24 * 3600.0


class ClockOffset(ParsedText):
    """How far a node's clock is set off, such as `+1h`, `-3s`."""

    __slots__ = ("milliseconds",)
    shown = "1s to 24h, with its sign, e.g. '+1h' or '-3s'"

    def __init__(self, text: str) -> None:
        """Raises `UsageError` for any other text."""
        super().__init__(text)
        match = _CLOCK_OFFSET.fullmatch(text.strip())
        seconds = 0.0 if match is None else float(match[2]) * _SECONDS[match[3]]
        if match is None or not CLOCK_OFFSET_S_MIN <= seconds <= CLOCK_OFFSET_S_MAX:
            raise UsageError("not an offset of a clock", got=repr(text), allowed=self.shown)
        self.milliseconds = round(seconds * 1000) * (-1 if match[1] == "-" else 1)


class Rate(ParsedText):
    """A rate of data such as `256kbit`, `10mbit`."""

    __slots__ = ("bytes_s",)
    shown = "8kbit to 100mbit, e.g. '256kbit'"

    def __init__(self, text: str) -> None:
        """Raises `UsageError` for any other text."""
        super().__init__(text)
        match = _RATE.fullmatch(text.strip())
        self.bytes_s = 0 if match is None else int(float(match[1]) * {"k": 1_000, "m": 1_000_000}[match[2]] / 8)
        if not RATE_BYTES_S_MIN <= self.bytes_s <= RATE_BYTES_S_MAX:
            raise UsageError("not a rate", got=repr(text), allowed="8kbit to 100mbit, e.g. 256kbit")


class PartitionName(ParsedText):
    """A partition such as `t-0`."""

    __slots__ = ("at",)
    shown = "a partition, e.g. 't-0'"

    def __init__(self, text: str) -> None:
        """Raises `UsageError` for any other text."""
        super().__init__(text)
        try:
            self.at = TopicPartition.parse(text)
        except ValueError:
            allowed = "a topic and a number, e.g. 't-0'"
            raise UsageError("not a partition", got=repr(text), allowed=allowed) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionName) and other.at == self.at

    def __hash__(self) -> int:
        return hash(self.at)
