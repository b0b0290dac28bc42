"""The part of a drawn history that is about copiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from records import RecordBuilder

if TYPE_CHECKING:
    from reconcile_histories import Draws, Setup


def draw_copies(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Draw copies of few inputs by few groups; what was sent and read says which of them are visible."""
    for value in d.numbers_between(1, 6):
        b.copy(value, of=d.number(0, 3), group=d.one_of("g", "g", "h"), partition=d.number(0, 1))
    for group in ("g", "h"):
        b.answer(None, d.number(1, 4), group=group, partition=d.number(0, 1))
