"""Records whose payload is damaged."""

from __future__ import annotations

from healthy_history import HEALTHY
from reconcile_cases import Cases, Mutant, complete
from reconcile_oracle_tables import Item, PlacedTables, place_of
from records import RecordBuilder

from analysis.judge.rules.losses import damaged as rule
from ebbtide.record.manifest import Manifest

KIND = "damaged"

CASES: Cases = {
    complete: {
        "a damaged record is one item, whoever reads it": (
            lambda b: b.read(None, at=0).read(None, at=0, consumer=2).final(None),
            {"damaged": [(0, None)]},
        ),
    },
}


MUTANTS: tuple[Mutant, ...] = ((rule, "value IS NULL", "value IS NULL AND NOT final"),)


def found_in(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    """An offset at which a consumer got a record that it cannot read."""
    return {("damaged", *place_of(poll), poll["offset"], None) for poll in tables["polls"] if poll["value"] is None}


def plant(b: RecordBuilder, n: int) -> dict[str, int]:
    """Records that a consumer and the final read cannot read."""
    for number in range(n):
        b.read(None, at=HEALTHY + number, consumer=2).final(None, at=HEALTHY + number)
    return {"damaged": n}
