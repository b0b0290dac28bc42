"""Renders the life of a record as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from analysis.explain.life import Life
from analysis.report.words import offset_s

_WIDTH = 100


def render_text(life: Life) -> str:
    """Return the life as lines of at most 100 columns, but for words that are longer."""
    lines = [
        *textwrap.wrap(life.headline, _WIDTH),
        f"  run {life.run}",
        "",
        "What happened, by time since the run began",
    ]
    for event in life.events:
        lines += _entry(f"{offset_s(event.at_ns, life.start_ns):>11}  ", event.text, event.place)
    lines += ["", f"Where it is in the end ({life.partition})"]
    for place in life.places:
        where = place.place if place.segment is None else f"{place.place}; {place.segment}"
        lines += _entry(f"   broker {place.broker}  ", place.text, where)
    lines += ["", "Why"]
    for number, reason in enumerate(life.reasons, 1):
        lines += _entry(f"  {number:>2}. ", reason.text, reason.place)
    lines += ["", "What the record of the run cannot say"]
    lines += _list(life.unknown or ["nothing that matters here is missing"])
    if life.others:
        lines += ["", f"Other records at this offset: {', '.join(f'--value {one}' for one in life.others)}"]
    return "\n".join(lines)


def _entry(start: str, text: str, place: str) -> Iterable[str]:
    indent = " " * len(start)
    yield from textwrap.wrap(text, _WIDTH, initial_indent=start, subsequent_indent=indent)
    yield from textwrap.wrap(f"[{place}]", _WIDTH, initial_indent=indent, subsequent_indent=indent)


def _list(items: Iterable[str]) -> Iterable[str]:
    for item in items:
        yield from textwrap.wrap(item, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
