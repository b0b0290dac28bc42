"""The part of a drawn history that is about copiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from records import RecordBuilder

if TYPE_CHECKING:
    from reconcile_histories import Draws, Setup


def draw_copies(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Draw copies of few inputs by few groups; what was sent and read says which of them are visible.

    Some inputs surely have two copies that a read_committed consumer got: by chance alone that is rare.
    """
    for value in d.numbers_between(1, 6):
        b.copy(value, of=d.number(0, 3), group=d.one_of("g", "g", "h"), partition=d.number(0, 1))
    if d.is_drawn(30):
        of, partition = d.number(0, 3), d.number(0, 1)
        for value in (1, 2):
            b.copy(value, of=of, group="g", partition=partition)
            b.read(value, at=d.offset(), partition=partition, session=value, isolation="read_committed")
    for group in ("g", "h"):
        b.answer(None, d.number(1, 4), group=group, partition=d.number(0, 1))
