"""What most rows of the tables of a made record say; whoever makes one says the rest."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ebbtide.record.tables import TABLES

Row = dict[str, Any]
_USUAL: Mapping[str, Row] = {
    "sends": {"producer": 1, "acks": -1, "status": "acked"},
    "polls": {"consumer": 1, "session": 1, "isolation": "read_uncommitted", "leader_epoch": 0},
    "watermarks": {"broker": 1, "leader_epoch": 0, "source": "list_offsets"},
    "described": {"broker": 1, "leader": 1, "leader_epoch": 0, "isr": [1, 2, 3], "elr": [], "last_known_elr": []},
    "partitions": {
        "metadata_epoch": 1,
        "leader": 1,
        "leader_epoch": 0,
        "leader_recovery_state": 0,
        "replicas": [1, 2, 3],
        "isr": [1, 2, 3],
        "elr": [],
        "last_known_elr": [],
        "adding": [],
        "removing": [],
    },
    "brokers": {"event": "registered"},
    "replicas": {
        "leader_epoch": 0,
        "producer_id": -1,
        "producer_epoch": -1,
        "sequence": -1,
        "control": False,
        "timestamp_ms": 0,
    },
    "commits": {"group": "g", "offsets_partition": 0},
    "copies": {"group": "g", "copied_to": "copies", "producer": 1},
}
_PLACE = {"topic": "t", "partition": 0}


def usual_row(table: str, **columns: Any) -> Row:
    """A row of a table with all its columns: those given, what is usual for others, and None for the rest."""
    usual = _all_columns(table)
    unknown = columns.keys() - usual.keys()
    assert not unknown, f"{table} has no {unknown}"
    return usual | columns


@functools.cache
def _all_columns(table: str) -> Row:
    names = TABLES[table].names
    place = {name: value for name, value in _PLACE.items() if name in names}
    return {**dict.fromkeys(names), **place, **_USUAL.get(table, {})}
