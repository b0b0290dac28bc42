"""Groups the rows of a record by their place, for the rules in plain Python."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

Key = TypeVar("Key")
Row = dict[str, Any]
Place = tuple[str, int]
"""(topic, partition)."""
Item = tuple[str, str, int, int | None, int | None]
"""(kind, topic, partition, offset, value)."""


def place_of(row: Row) -> Place:
    return row["topic"], row["partition"]


class PlacedTables(defaultdict[str, list[Row]]):
    """The rows by table. They must not change after the first call of a method."""

    @classmethod
    def of(cls, tables: Mapping[str, list[Row]]) -> Self:
        return tables if isinstance(tables, cls) else cls(list, tables)

    def polls_at(self, place: Place) -> list[Row]:
        return self._polls.get(place, [])

    def polls_of_offset(self, place: Place, offset: int) -> list[Row]:
        return self._polls_by_offset.get((*place, offset), [])

    def leader_log(self, place: Place) -> list[Row]:
        """The log of the partition's last leader."""
        return self._leader_logs.get(place, [])

    @functools.cached_property
    def _polls(self) -> dict[Place, list[Row]]:
        return _grouped(self["polls"], place_of)

    @functools.cached_property
    def _polls_by_offset(self) -> dict[tuple[str, int, int], list[Row]]:
        return _grouped(self["polls"], lambda row: (*place_of(row), row["offset"]))

    @functools.cached_property
    def _leader_logs(self) -> dict[Place, list[Row]]:
        last: dict[Place, Row] = {}
        for row in sorted(self["partitions"], key=lambda row: row["metadata_offset"]):
            last[place_of(row)] = row
        in_leader_log = (
            row for row in self["replicas"] if place_of(row) in last and last[place_of(row)]["leader"] == row["broker"]
        )
        return _grouped(in_leader_log, place_of)


def _grouped(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    found = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found
