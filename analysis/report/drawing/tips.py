"""Says what a span or a mark is, for a pointer, a finger and a screen reader."""

from __future__ import annotations

from analysis.report.drawing.scale import TimeScale
from analysis.report.picture.model import Details
from analysis.sentences import words


def tip(text: str, scale: TimeScale, begin_ns: int, end_ns: int | None, details: Details) -> str:
    """Return the details of a shape: a line each, the name before a colon."""
    begin = words.offset_s(begin_ns, scale.zero_ns)
    if end_ns == begin_ns:
        when = begin
    elif end_ns is None:
        when = f"{begin} to the end of the run"
    else:
        when = f"{begin} to {words.offset_s(end_ns, scale.zero_ns)}, {(end_ns - begin_ns) / 1e9:.3f} s"
    lines = [text, f"time: {when}", *(f"{name}: {value}" for name, value in details if name not in ("at", "fired"))]
    return "\n".join(lines)
