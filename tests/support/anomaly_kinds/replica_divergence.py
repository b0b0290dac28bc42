"""Replicas that differ below both HWs."""

from __future__ import annotations

from collections import defaultdict

from healthy_history import HEALTHY
from reconcile_cases import Cases, Mutant, complete
from reconcile_oracle_tables import Item, PlacedTables, Row, place_of
from records import RecordBuilder

from analysis.judge.rules.losses import replica_divergence as rule
from ebbtide.record.manifest import Manifest

KIND = "replica-divergence"

CASES: Cases = {
    complete: {
        "two values below both HWs diverge": (
            lambda b: b.replica(1, 1, 2).replica(2, 1, 3).checkpoint(1, 2).checkpoint(2, 2),
            {"replica-divergence": [(1, None)]},
        ),
        "two leader epochs below both HWs diverge": (
            lambda b: b.replica(1, 1, epoch=1).replica(2, 1, epoch=2).checkpoint(1, 2).checkpoint(2, 2),
            {"replica-divergence": [(0, None)]},
        ),
        "three different replicas are one item an offset": (
            lambda b: b.replica(1, 1).replica(2, 2).replica(3, 3).checkpoint(1, 1).checkpoint(2, 1).checkpoint(3, 1),
            {"replica-divergence": [(0, None)]},
        ),
        "at or above one replica's HW they may differ": (
            lambda b: b.replica(1, 1, 2).replica(2, 1, 3).checkpoint(1, 2).checkpoint(2, 1),
            {},
        ),
        "each replica's last checkpoint counts": (
            lambda b: (
                b.replica(1, 1, 2)
                .replica(2, 1, 3)
                .checkpoint(1, 2, at_ns=10)
                .checkpoint(1, 1, at_ns=20)
                .checkpoint(2, 2)
            ),
            {},
        ),
        "a row missing in one replica is no divergence": (
            lambda b: b.replica(1, 1, 2, 3).replica(2, 1).replica(2, 3, at=2).checkpoint(1, 3).checkpoint(2, 3),
            {},
        ),
        "a log that holds two records at an offset does not differ from itself": (
            lambda b: b.replica(1, 1).replica(1, 2).checkpoint(1, 1).checkpoint(2, 1),
            {},
        ),
        "a replica without a checkpoint is not compared": (
            lambda b: b.replica(1, 1).replica(2, 2).checkpoint(1, 1).checkpoint(3, 1),
            {},
        ),
        "control records are the same without a value": (
            lambda b: b.replica(1, None, control=True).replica(2, None, control=True).checkpoint(1, 1).checkpoint(2, 1),
            {},
        ),
        "a control record differs from a value": (
            lambda b: b.replica(1, None, control=True).replica(2, 1).checkpoint(1, 1).checkpoint(2, 1),
            {"replica-divergence": [(0, None)]},
        ),
        "a later block of offsets is compared too": (
            lambda b: b.replica(1, 1, 2, at=5000).replica(2, 1, 3, at=5000).checkpoint(1, 9000).checkpoint(2, 9000),
            {"replica-divergence": [(5001, None)]},
        ),
    },
}


MUTANTS: tuple[Mutant, ...] = (
    (rule, "offset < checkpoint", "offset <= checkpoint"),
    (rule, 'record = F.struct("leader_epoch", "value")', 'record = F.struct("leader_epoch")'),
    (rule, '(F.min("broker") != F.max("broker")) & ', ""),
)


def found_in(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    """An offset at which two brokers have different records below their HWs."""
    hw: dict[tuple[str, int, int], int] = {}
    for row in sorted(tables["watermarks"], key=lambda row: (row["at_ns"], -row["high_watermark"])):
        if row["source"] == "checkpoint":
            hw[(*place_of(row), row["broker"])] = row["high_watermark"]
    held: dict[tuple[str, int, int], list[Row]] = defaultdict(list)
    for row in tables["replicas"]:
        if row["offset"] < hw.get((*place_of(row), row["broker"]), -1):
            held[(*place_of(row), row["offset"])].append(row)
    return [
        ("replica-divergence", *place, None)
        for place, rows in held.items()
        if any(
            one["broker"] != other["broker"]
            and (one["value"] != other["value"] or one["leader_epoch"] != other["leader_epoch"])
            for one in rows
            for other in rows
        )
    ]


def plant(b: RecordBuilder, n: int) -> dict[str, int]:
    """Offsets at which two followers differ."""
    for number in range(n):
        b.replica(2, 100 + number, at=HEALTHY + number).replica(3, 200 + number, at=HEALTHY + number)
    return {"replica-divergence": n}


def plant_batch_appended_twice(b: RecordBuilder, n: int) -> dict[str, int]:
    """Return a divergence in a block of offsets of its own, each row twice.

    Both logs hold as many rows.
    """
    for number in range(n):
        for broker, value in ((2, 100 + number), (3, 200 + number)):
            b.replica(broker, value, at=640 + number).replica(broker, value, at=640 + number)
    b.checkpoint(2, 1_000).checkpoint(3, 1_000)
    return {"replica-divergence": n}
