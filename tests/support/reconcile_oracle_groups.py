"""The groups that the judge decides from, in plain Python.

Every duplicate and every aborted read counts in one of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from reconcile_oracle import Item, places_of, stands_at
from reconcile_oracle_tables import PlacedTables, Row

from analysis.reconcile.model import AbortedReads, Duplicates, Reconciliation
from ebbtide.record.manifest import Manifest

Key = tuple[str, str, int, bool, bool, bool]
Groups = dict[Key, tuple[int, int | None, int | None]]
"""By (kind, topic, partition, idempotent, stands twice, unreadable): how many, and offset and value of the first."""


def groups(items: Sequence[Item], tables: dict[str, list[Row]], manifest: Manifest) -> Groups:
    """The groups of these items, which are all of the record."""
    tables = PlacedTables.of(tables)
    places: dict[int, list[Row]] = defaultdict(list)
    for topic, partition, offset, value in places_of(tables):
        places[value].append({"topic": topic, "partition": partition, "offset": offset})
    found: dict[Key, list[tuple[int | None, int | None]]] = defaultdict(list)
    for kind, topic, partition, offset, value in items:
        if kind == "aborted-read":
            found[kind, topic, partition, False, False, False].append((offset, value))
        if kind == "duplicate" and value is not None:
            standing = sum(stands_at(place, value, tables, manifest) for place in places[value])
            gone = any(_is_unreadable(place, manifest) for place in places[value])
            found[kind, topic, partition, _is_idempotent(value, tables, manifest), standing > 1, gone].append(
                (offset, value)
            )
    return {key: (len(group), *min(group)) for key, group in found.items()}


def groups_of(reconciliation: Reconciliation, topics: Sequence[str] | None = None) -> Groups:
    """The groups that the judge gets; `topics`: of these only."""
    duplicates = {
        ("duplicate", one.topic, one.partition, one.idempotent, one.twice_in_final_log, one.unreadable): one
        for one in reconciliation.groups_of(Duplicates)
    }
    aborted = {
        ("aborted-read", one.topic, one.partition, False, False, False): one
        for one in reconciliation.groups_of(AbortedReads)
    }
    return {
        key: (one.count, one.first["offset"], one.first["value"])
        for key, one in (duplicates | aborted).items()
        if topics is None or key[1] in topics
    }


def _is_idempotent(value: int, tables: dict[str, list[Row]], manifest: Manifest) -> bool:
    producers = [send["producer"] for send in tables["sends"] if send["value"] == value]
    setup = manifest.producers.get(str(max(producers, default=None)))
    return setup is not None and setup.idempotent


def _is_unreadable(place: Row, manifest: Manifest) -> bool:
    end = manifest.final_offsets.get(f"{place['topic']}-{place['partition']}")
    return end is None or place["offset"] < end.log_start
