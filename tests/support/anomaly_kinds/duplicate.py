"""Values that stood at two places."""

from __future__ import annotations

from collections import defaultdict

from healthy_history import HEALTHY
from reconcile_cases import Cases, Found, Mutant, complete
from reconcile_draws import Draws, Parts, Setup
from reconcile_oracle_run import places_of, stands_at
from reconcile_oracle_tables import Item, PlacedTables, Row
from records import RecordBuilder

from analysis.judge.rules.appends import duplicate as rule
from analysis.reconcile.model import Duplicates
from analysis.spark import columns
from ebbtide.record.manifest import Manifest

KIND = "duplicate"
Key = tuple[str, int, bool, bool, bool]
Groups = dict[Key, tuple[int, int | None, int | None]]
"""By (topic, partition, idempotent, stands twice, unreadable): how many, and offset and value of the first."""

CASES: Cases = {
    complete: {
        "one value at three offsets is one duplicate": (
            lambda b: b.final(1, 1, 1),
            {"duplicate": [(0, 1)]},
        ),
        "a value acked and read at two offsets is a duplicate": (
            lambda b: b.acked(1, 1, at=0).final(1, 1),
            {"duplicate": [(0, 1)]},
        ),
        "an acked value polled elsewhere is a duplicate": (
            lambda b: b.acked(1, at=0).final(1, 2, 1),
            {"duplicate": [(0, 1)]},
        ),
        "a polled value that was never sent is no anomaly": (lambda b: b.read(1, at=0).final(1), {}),
    },
}


MUTANTS: tuple[Mutant, ...] = (
    (rule, 'F.col("places_in_all") > 1', 'F.col("places_in_all") > 2'),
    (rule, 'F.col("standing") > 1', 'F.col("standing") > 0'),
    (rule, 'F.col("unreadable") > 0', 'F.col("unreadable") > 1'),
    (
        rule,
        'by=("idempotent", "twice_in_final_log", "unreadable")',
        'by=("true AS idempotent", "twice_in_final_log", "unreadable")',
    ),
    (rule, '"twice_in_final_log", "unreadable")', '"twice_in_final_log", "false AS unreadable")'),
    (columns, "facts.idempotent == producers", "True"),
)


def found_in(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    """A value at more than one place."""
    places: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
    for topic, partition, offset, value in places_of(tables):
        places[value].append((topic, partition, offset))
    return [("duplicate", *min(stood), value) for value, stood in places.items() if len(stood) > 1]


def told(found: Found) -> Groups:
    """The groups that the judge gets."""
    return {
        (one.topic, one.partition, one.idempotent, one.twice_in_final_log, one.unreadable): (
            one.count,
            one.first["offset"],
            one.first["value"],
        )
        for one in found.groups(Duplicates, KIND)
    }


def expected(tables: PlacedTables, manifest: Manifest) -> Groups:
    """The same by the rule: every duplicate counts in one of them."""
    places: dict[int, list[Row]] = defaultdict(list)
    for topic, partition, offset, value in places_of(tables):
        places[value].append({"topic": topic, "partition": partition, "offset": offset})
    groups: dict[Key, list[tuple[int | None, int]]] = defaultdict(list)
    for _, topic, partition, offset, value in found_in(tables, manifest):
        if value is not None:
            standing = sum(stands_at(place, value, tables, manifest) for place in places[value])
            gone = any(_is_unreadable(place, manifest) for place in places[value])
            idempotent = _is_idempotent(value, tables, manifest)
            groups[topic, partition, idempotent, standing > 1, gone].append((offset, value))
    return {key: (len(group), *min(group)) for key, group in groups.items()}


def _is_idempotent(value: int, tables: dict[str, list[Row]], manifest: Manifest) -> bool:
    producers = [send["producer"] for send in tables["sends"] if send["value"] == value]
    setup = manifest.producers.get(str(max(producers, default=None)))
    return setup is not None and setup.idempotent


def _is_unreadable(place: Row, manifest: Manifest) -> bool:
    end = manifest.final_offsets.get(f"{place['topic']}-{place['partition']}")
    return end is None or place["offset"] < end.log_start


def plant(b: RecordBuilder, n: int) -> dict[str, int]:
    """Values that the final log has once more."""
    b.final(*range(n), at=HEALTHY)
    return {"duplicate": n}


def _draw_three_places(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Draw a value at two places of the final log, or at one, and at one below its start."""
    columns = {"partition": 5}
    b.send(95, at=0, **columns).read(95, at=0, **columns).end(log_start=2, high_watermark=200, **columns)
    for offset in range(190, 190 + d.number(1, 2)):
        b.final(95, at=offset, isolation=setup.final_isolation, **columns)


PARTS: Parts = {_draw_three_places: 20}
