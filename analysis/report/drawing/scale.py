"""Places on the axes: times in per cent, values in pixels, ticks at round numbers. What a shape is at its time."""

from __future__ import annotations

from math import ceil, floor, log10

from analysis.report.picture.model import Details
from analysis.sentences import words

WIDE = 10_000
"""The width of a panel in its own units; times of paths are rounded to them."""


class TimeScale:
    """The time axis of one picture."""

    def __init__(self, begin_ns: int, end_ns: int, zero_ns: int) -> None:
        self.begin_ns = begin_ns
        self.end_ns = end_ns
        self.zero_ns = zero_ns

    def fraction(self, at_ns: int) -> float:
        """Return a time as a fraction of the axis, between 0 and 1."""
        return min(1.0, max(0.0, (at_ns - self.begin_ns) / (self.end_ns - self.begin_ns)))

    def percent(self, at_ns: int) -> str:
        """Return the place of a time."""
        return f"{100 * self.fraction(at_ns):.3f}%"

    def width(self, begin_ns: int, end_ns: int | None) -> str:
        """Return the width of a span; one that did not end goes to the end of the axis."""
        return f"{100 * (self.fraction(self.until(end_ns)) - self.fraction(begin_ns)):.3f}%"

    def units(self, at_ns: int) -> float:
        """Return the place of a time in a panel."""
        return round(WIDE * self.fraction(at_ns), 1)

    def until(self, end_ns: int | None) -> int:
        """Return the end of a span; a span without an end lasts as long as the axis."""
        return self.end_ns if end_ns is None else end_ns

    def shows(self, begin_ns: int, end_ns: int | None) -> bool:
        """Return whether any of a span is on the axis."""
        return self.until(end_ns) >= self.begin_ns and begin_ns <= self.end_ns

    def ticks(self, count: int) -> tuple[tuple[str, str], ...]:
        """Return about `count` round times as seconds since the start of the run."""
        first, last = ((at - self.zero_ns) / 1e9 for at in (self.begin_ns, self.end_ns))
        margin = (last - first) / 40
        return tuple(
            (self.percent(self.zero_ns + round(value * 1e9)), f"{value:g} s")
            for value in round_numbers(first + margin, last - margin, count)
        )


def round_numbers(low: float, high: float, count: int) -> list[float]:
    """Return about `count` numbers 1, 2 or 5 times a power of ten apart, from low to high."""
    if high <= low:
        return [low]
    rough = (high - low) / max(1, count)
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return [round(at * step, 9) for at in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


_ROOM_PX = 12
"""What is free above the highest value of a panel."""


class ValueScale:
    """The values of a panel, 0 at its bottom."""

    def __init__(self, top_value: float, height: float) -> None:
        self._top_value = max(1.0, top_value)
        self._height = height

    def y(self, value: float) -> float:
        """Return the distance of a value from the panel's top, in pixels."""
        return round(self._height - (self._height - _ROOM_PX) * value / self._top_value, 1)

    def grid(self, count: int = 4) -> tuple[tuple[float, str], ...]:
        """Return round values with their places."""
        values = (value for value in round_numbers(0, self._top_value, count) if value % 1 == 0)
        return tuple((self.y(value), f"{value:,.0f}") for value in values)


def tip(text: str, scale: TimeScale, begin_ns: int, end_ns: int | None, details: Details) -> str:
    """Return what a shape is, for a pointer, a finger and a screen reader: a line each, the name before a colon."""
    begin = words.offset_s(begin_ns, scale.zero_ns)
    if end_ns == begin_ns:
        when = begin
    elif end_ns is None:
        when = f"{begin} to the end of the run"
    else:
        when = f"{begin} to {words.offset_s(end_ns, scale.zero_ns)}, {(end_ns - begin_ns) / 1e9:.3f} s"
    lines = [text, f"time: {when}", *(f"{name}: {value}" for name, value in details if name not in ("at", "fired"))]
    return "\n".join(lines)
