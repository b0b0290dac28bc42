"""The counting rules a second time, in slow and plain Python from the rules' sentences, for tests only."""

from __future__ import annotations

from typing import Any

from anomaly_kinds import functions, modules
from reconcile_cases import Found
from reconcile_oracle_tables import Item, PlacedTables, Row
from records import RecordBuilder

from ebbtide.record.manifest import Manifest


def anomalies(tables: dict[str, list[Row]], manifest: Manifest) -> list[Item]:
    """Every item of every kind that the tables alone show, sorted."""
    placed = PlacedTables.of(tables)
    return sorted((item for find in functions("found_in") for item in find(placed, manifest)), key=repr)


def anomalies_of(builder: RecordBuilder) -> list[Item]:
    """Every item of a record, sorted; some kinds need more than its tables."""
    return sorted([*anomalies(builder.tables, builder.manifest()), *items_beside_tables(builder)], key=repr)


def items_beside_tables(builder: RecordBuilder) -> list[Item]:
    """Every item of the kinds that tables alone do not show."""
    return [item for find in functions("found_in_record") for item in find(builder)]


def is_told(found: Found) -> dict[str, Any]:
    """What is said of the items of some kinds, besides that they are items."""
    return {one.KIND: one.told(found) for one in modules() if hasattr(one, "told")}


def must_be_told(tables: dict[str, list[Row]], manifest: Manifest) -> dict[str, Any]:
    """The same by the rules."""
    placed = PlacedTables.of(tables)
    return {one.KIND: one.expected(placed, manifest) for one in modules() if hasattr(one, "expected")}
