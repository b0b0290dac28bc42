"""Records that a consumer got though they were aborted."""

from __future__ import annotations

from collections import defaultdict

from healthy_history import HEALTHY
from reconcile_cases import Cases, Found, Mutant, complete
from reconcile_oracle_tables import Item, PlacedTables, place_of
from records import RecordBuilder

from analysis.reconcile.model import AbortedReads
from ebbtide.record.manifest import Manifest

KIND = "aborted-read"

CASES: Cases = {
    complete: {
        "a failed send that was read is an aborted read": (
            lambda b: b.send(1, status="failed").final(1),
            {"aborted-read": [(0, 1)]},
        ),
        "an unknown send that was read is none": (lambda b: b.send(1, status="unknown").final(1), {}),
        "a failed send read at two offsets is one aborted read": (
            lambda b: b.send(1, status="failed").read(1, at=4).final(1, at=4).final(1, at=2),
            {"aborted-read": [(2, 1)], "duplicate": [(2, 1)]},
        ),
        "an aborted transaction seen by read_committed is an aborted read": (
            lambda b: b.acked(1, at=0, txn=1, txn_outcome="aborted").final(1).read(1, at=0, isolation="read_committed"),
            {"aborted-read": [(0, 1)]},
        ),
        "an aborted transaction seen by read_uncommitted is none": (
            lambda b: b.acked(1, at=0, txn=1, txn_outcome="aborted").final(1).read(1, at=0),
            {},
        ),
        "a transaction of unknown outcome seen by read_committed is none": (
            lambda b: b.acked(1, at=0, txn=1, txn_outcome="unknown").final(1).read(1, at=0, isolation="read_committed"),
            {},
        ),
    },
}


MUTANTS: tuple[Mutant, ...] = ()


def found_in(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    """A value that a consumer got though its send failed, or its transaction was aborted."""
    places: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
    for poll in tables["polls"]:
        for send in tables["sends"]:
            if poll["value"] is None or poll["value"] != send["value"]:
                continue
            aborted = send["txn_outcome"] == "aborted" and poll["isolation"] == "read_committed"
            if send["status"] == "failed" or aborted:
                places[poll["value"]].append((*place_of(poll), poll["offset"]))
    return [("aborted-read", *min(got), value) for value, got in places.items()]


def told(found: Found) -> object:
    """How many the judge gets of each partition, and the first."""
    return {
        (one.topic, one.partition): (one.count, one.first["offset"], one.first["value"])
        for one in found.groups(AbortedReads, KIND)
    }


def expected(tables: PlacedTables, manifest: Manifest) -> object:
    """The same by the rule."""
    groups: dict[tuple[str, int], list[tuple[int | None, int | None]]] = defaultdict(list)
    for _, topic, partition, offset, value in found_in(tables, manifest):
        groups[topic, partition].append((offset, value))
    return {place: (len(group), *min(group)) for place, group in groups.items()}


def plant(b: RecordBuilder, n: int) -> dict[str, int]:
    """Failed sends that the final read got."""
    for value in range(100, 100 + n):
        b.send(value, status="failed").final(value, at=HEALTHY + value)
    return {"aborted-read": n}


def plant_aborted_records_passed_over(b: RecordBuilder, n: int) -> dict[str, int]:
    """Aborted records in a block whose acks are the final read: a read_committed consumer may pass over them."""
    values = range(100, 100 + HEALTHY)
    for at, value in enumerate(values):
        b.send(value, at=at, partition=7, txn=3, txn_outcome="aborted" if 10 <= at < 10 + n else "committed")
    b.final(*values, at=0, partition=7)
    for begin, end in ((0, 10), (10 + n, HEALTHY)):
        b.read(*values[begin:end], at=begin, partition=7, consumer=3, session=7, isolation="read_committed")
    return {}
