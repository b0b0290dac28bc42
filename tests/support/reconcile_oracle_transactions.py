"""The rule of hanging transactions a second time, in plain Python over rows, for tests only."""

from __future__ import annotations

from typing import Any

from ebbtide.record.manifest import Manifest

Row = dict[str, Any]
Item = tuple[str, str, int, int | None, int | None]

_OPEN = {"Ongoing", "PrepareCommit", "PrepareAbort", None}


def hanging_items(tables: dict[str, list[Row]], manifest: Manifest) -> list[Item]:
    """An item for each partition whose LSO is below its HW, once every coordinator has ended what it had.

    None of a run in which such an LSO had not stood still.
    """
    asked = manifest.final_transactions
    if asked is None or asked.silent or _OPEN & set(asked.states.values()):
        return []
    items: list[Item] = []
    for name, end in manifest.final_offsets.items():
        topic, _, number = name.rpartition("-")
        if end.last_stable is None or end.last_stable >= end.high_watermark:
            continue
        if name not in asked.still or asked.still[name] != end.last_stable:
            return []
        values = [
            row["value"]
            for row in tables["polls"]
            if (row["topic"], row["partition"], row["offset"]) == (topic, int(number), end.last_stable)
            and manifest.final_consumer is not None
            and row["consumer"] == manifest.final_consumer
            and row["value"] is not None
        ]
        items.append(("hanging-transaction", topic, int(number), end.last_stable, min(values, default=None)))
    return items
