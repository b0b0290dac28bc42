"""Steps back of consumers."""

from __future__ import annotations

from collections.abc import Callable

from reconcile_cases import Case, Expected
from reconcile_oracle_tables import PlacedTables, place_of
from records import RecordBuilder

from ebbtide.record.manifest import Manifest

KIND = "poll-back"

CASES: dict[str, tuple[Case, Expected]] = {
    "a lower offset than before went back": (
        lambda b: b.final(1, 2, 3).read(1, at=0, prev_offset=2),
        {KIND: [(0, 1)]},
    ),
    "the same offset as before went back": (
        lambda b: b.final(1, 2).read(1, at=0).read(1, at=0, prev_offset=0),
        {KIND: [(0, 1)]},
    ),
    "a later session may begin lower": (lambda b: b.final(1, 2).read(1, 2, at=0).read(1, at=0, session=2), {}),
}

UNKNOWN: dict[str, tuple[Callable[[], RecordBuilder], str]] = {
    "nobody read": (lambda: RecordBuilder().acked(1, at=0).empty("polls").end(), "polls is empty"),
}


def found_in(tables: PlacedTables, manifest: Manifest) -> list[tuple[str, str, int, int | None, int | None]]:
    """An item for each row that is not above the one before."""
    return [
        (KIND, *place_of(poll), poll["offset"], poll["value"])
        for poll in tables["polls"]
        if poll["prev_offset"] is not None and poll["offset"] <= poll["prev_offset"]
    ]


def plant(b: RecordBuilder, n: int) -> dict[str, int]:
    """Rows at or below the one before."""
    for number in range(n):
        b.read(number, at=number, consumer=2, prev_offset=number + number % 2)
    return {KIND: n}
