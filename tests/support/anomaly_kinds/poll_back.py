"""Steps back of consumers."""

from __future__ import annotations

from reconcile_cases import Cases, Mutant, Unknown, complete, no_final_read
from reconcile_oracle_tables import Item, PlacedTables, place_of
from records import RecordBuilder

from analysis.judge.rules.reads import poll_back as rule
from ebbtide.record.manifest import Manifest

KIND = "poll-back"

CASES: Cases = {
    complete: {
        "a lower offset than before went back": (
            lambda b: b.final(1, 2, 3).read(1, at=0, prev_offset=2),
            {KIND: [(0, 1)]},
        ),
        "the same offset as before went back": (
            lambda b: b.final(1, 2).read(1, at=0).read(1, at=0, prev_offset=0),
            {KIND: [(0, 1)]},
        ),
        "a later session may begin lower": (lambda b: b.final(1, 2).read(1, 2, at=0).read(1, at=0, session=2), {}),
    },
    no_final_read: {
        "without a final read the position still went back": (
            lambda b: b.read(1, at=0, prev_offset=3),
            {"poll-back": [(0, 1)]},
        ),
    },
}

UNKNOWN: Unknown = {
    "nobody read": (lambda: RecordBuilder().acked(1, at=0).empty("polls").end(), "polls is empty"),
}

MUTANTS: tuple[Mutant, ...] = ((rule, "offset <= prev_offset", "offset < prev_offset"),)


def found_in(tables: PlacedTables, manifest: Manifest) -> list[Item]:
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
