"""Renders the life of a record: as text for a terminal, and as one HTML page without scripts or external resources."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.explain.life import Life
from analysis.report.pages import render_page
from analysis.sentences.words import offset_s
from ebbtide.folding import fold_line, shown_width
from ebbtide.journal.payload import value_in_words


def render_life(life: Life) -> str:
    """Return the page. Every value is escaped."""
    times = [offset_s(event.at_ns, life.start_ns) for event in life.events]
    return render_page("analysis.explain", "explain", life=life, events=list(zip(times, life.events, strict=True)))


def render_text(life: Life) -> str:
    """Return the life as lines; what follows a number, a broker or a time stays beside it."""
    lines = [life.headline, f"  run {life.run}", "", "Why"]
    for number, reason in enumerate(life.reasons, 1):
        lines += _entry(f"  {number:>2}. ", reason.text, reason.place)
    if life.places:
        lines += ["", f"Where it is in the end ({life.partition})"]
    for place in life.places:
        where = place.place if place.segment is None else f"{place.place}; {place.segment}"
        lines += _entry(f"   broker {place.broker}  ", place.text, where)
    lines += ["", "What the record of the run cannot say"]
    lines += _list(life.unknown or ["nothing that matters here is missing"])
    if life.others:
        lines += ["", "Other records at this offset"]
        lines += _list(f"{value_in_words(one)}: --value {one}" for one in life.others)
    lines += ["", "What happened, by time since the run began"]
    for event in life.events:
        lines += _entry(f"{offset_s(event.at_ns, life.start_ns):>11}  ", event.text, event.place)
    return "\n".join(lines)


def _entry(start: str, text: str, place: str) -> Iterable[str]:
    for line in (f"{start}{text}", f"{' ' * len(start)}[{place}]"):
        yield from fold_line(line, shown_width(), below=len(start))


def _list(items: Iterable[str]) -> Iterable[str]:
    for item in items:
        yield f"  - {item}"
