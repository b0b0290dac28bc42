"""Puts the rows of a hand-made metadata log in one order by offset and by time, however a test told them."""

from __future__ import annotations

from typing import Any

Tables = dict[str, list[dict[str, Any]]]


def let_times_rise(tables: Tables) -> None:
    """Give each row at least the time of the row before it."""
    newest = 0
    for row in sorted(_rows(tables), key=lambda one: int(one["metadata_offset"])):
        newest = row["at_ns"] = max(newest, row["at_ns"])


def order_by_time(tables: Tables) -> None:
    """Give the rows offsets in the order of their times."""
    rows = sorted(_rows(tables), key=lambda one: (int(one["at_ns"]), int(one["metadata_offset"])))
    for row, offset in zip(rows, sorted(int(one["metadata_offset"]) for one in rows), strict=True):
        row["metadata_offset"] = offset
    tables["partitions"].sort(key=lambda one: int(one["metadata_offset"]))


def _rows(tables: Tables) -> list[dict[str, Any]]:
    return [row for name in ("partitions", "brokers", "configs") for row in tables[name]]
