"""Offsets at which two values stood."""

from __future__ import annotations

from collections import defaultdict

from healthy_history import HEALTHY
from reconcile_cases import Cases, Mutant, complete
from reconcile_oracle_run import places_of
from reconcile_oracle_tables import Item, PlacedTables
from records import RecordBuilder

from analysis.judge.rules.appends import inconsistent_offset as rule
from ebbtide.record.manifest import Manifest

KIND = "inconsistent-offset"

CASES: Cases = {
    complete: {
        "an ack and a poll of two values at one offset are inconsistent": (
            lambda b: b.acked(1, at=0).acked(2, at=1).final(2, at=0),
            {"inconsistent-offset": [(0, None)], "lost": [(0, 1)], "duplicate": [(0, 2)]},
        ),
        "two acks at one offset are inconsistent": (
            lambda b: b.acked(1, at=0).acked(2, at=0).final(1),
            {"inconsistent-offset": [(0, None)], "lost": [(0, 2)]},
        ),
        "three values at one offset are one item": (
            lambda b: b.acked(1, at=0).acked(2, at=0).acked(3, at=0).final(1),
            {"inconsistent-offset": [(0, None)], "lost": [(0, 2), (0, 3)]},
        ),
        "an unknown or failed send is no evidence of an offset": (
            lambda b: (
                b.final(1)
                .send(2, at=0, status="unknown")
                .send(3, at=0, status="failed")
                .send(1, at=5, status="unknown")
            ),
            {},
        ),
        "replicas are no evidence of an offset": (
            lambda b: b.acked(1, at=0).final(1).led_by(1, epoch=0).replica(1, 2, 1),
            {},
        ),
        "one offset of two partitions may hold two values": (
            lambda b: b.acked(1, at=0).acked(2, at=0, partition=1).final(1).final(2, partition=1),
            {},
        ),
    },
}


MUTANTS: tuple[Mutant, ...] = ((rule, 'F.col("values_in_all") > 1', 'F.col("values_in_all") > 2'),)


def found_in(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    """An offset with more than one value."""
    values: dict[tuple[str, int, int], set[int]] = defaultdict(set)
    for topic, partition, offset, value in places_of(tables):
        values[topic, partition, offset].add(value)
    return [("inconsistent-offset", *place, None) for place, held in values.items() if len(held) > 1]


def plant(b: RecordBuilder, n: int) -> dict[str, int]:
    """Acked records where the final log has others."""
    b.acked(*range(100, 100 + n), at=HEALTHY).final(*range(200, 200 + n), at=HEALTHY)
    return {"inconsistent-offset": n, "lost": n}
