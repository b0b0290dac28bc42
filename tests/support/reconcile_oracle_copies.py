"""The rules of copiers a second time, in plain Python over rows, for tests only."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from reconcile_oracle_run import compacted_topics

from ebbtide.record.manifest import Manifest

Row = dict[str, Any]
Item = tuple[str, str, int, int | None, int | None]
Place = tuple[str, str, int]


def wrong_copies(tables: dict[str, list[Row]], manifest: Manifest) -> list[Item]:
    """An item for each input with two visible copies, and for each skipped input."""
    return [*_copied_twice(tables, manifest), *_skipped(tables, manifest)]


def _copied_twice(tables: dict[str, list[Row]], manifest: Manifest) -> list[Item]:
    found: dict[tuple[Place, int], set[int]] = defaultdict(set)
    for copy in tables.get("copies", []):
        if _is_visible(copy["value"], tables, manifest, certainly=True):
            found[_place(copy), copy["offset"]].add(copy["value"])
    return [
        ("copied-twice", topic, partition, offset, min(values))
        for ((_, topic, partition), offset), values in found.items()
        if len(values) > 1
    ]


def _skipped(tables: dict[str, list[Row]], manifest: Manifest) -> list[Item]:
    if manifest.status != "complete" or manifest.final_consumer is None:
        return []
    items: list[Item] = []
    for place in {_place(copy) for copy in tables.get("copies", [])}:
        copies = [copy for copy in tables["copies"] if _place(copy) == place]
        served = [
            row["offset"] for row in tables.get("commits", []) if row["status"] == "served" and _place(row) == place
        ]
        if not served or not all(_can_judge(copy, tables, manifest) for copy in copies):
            continue
        copied = {copy["offset"] for copy in copies if _is_visible(copy["value"], tables, manifest, certainly=False)}
        end = max((offset for offset in served if offset is not None), default=0)
        inputs: dict[int, list[int]] = defaultdict(list)
        for row in tables["polls"]:
            is_input = _is_final(row, manifest) and (row["topic"], row["partition"]) == place[1:]
            if is_input and row["value"] is not None and not _may_be_hidden(row["value"], tables):
                inputs[row["offset"]].append(row["value"])
        for offset, values in inputs.items():
            if offset < end and offset not in copied:
                items.append(("input-skipped", place[1], place[2], offset, min(values)))
    return items


def _place(row: Row) -> Place:
    return row["group"], row["topic"], row["partition"]


def _is_final(row: Row, manifest: Manifest) -> bool:
    return manifest.final_consumer is not None and row["consumer"] == manifest.final_consumer


def _outcomes(value: int, tables: dict[str, list[Row]]) -> set[str | None]:
    return {row["txn_outcome"] for row in tables["sends"] if row["value"] == value}


def _may_be_hidden(value: int, tables: dict[str, list[Row]]) -> bool:
    sent = [row for row in tables["sends"] if row["value"] == value]
    return any(
        row["txn_outcome"] != "committed" and (row["txn"] is not None or row["txn_outcome"] is not None) for row in sent
    )


def _is_visible(value: int, tables: dict[str, list[Row]], manifest: Manifest, *, certainly: bool) -> bool:
    outcomes, polls = _outcomes(value, tables), [row for row in tables["polls"] if row["value"] == value]
    if "aborted" in outcomes:
        return False
    stands = any(_is_final(row, manifest) for row in polls) and ("committed" in outcomes or not certainly)
    return stands or any(row["isolation"] == "read_committed" for row in polls)


def _can_judge(copy: Row, tables: dict[str, list[Row]], manifest: Manifest) -> bool:
    ends = manifest.final_offsets
    read = {f"{row['topic']}-{row['partition']}" for row in tables["polls"] if _is_final(row, manifest)}
    at = f"{copy['topic']}-{copy['partition']}"
    topics = {copy["topic"], copy["copied_to"]}
    named = {name for name in ends if name.rpartition("-")[0] in topics}
    unread = {name for name in named if ends[name].high_watermark > ends[name].log_start and name not in read}
    is_moved = not topics.isdisjoint(compacted_topics(tables)) or any(ends[name].log_start > 0 for name in named)
    needed = {at} | {name for name in named if name.rpartition("-")[0] == copy["copied_to"]}
    return at in ends and not is_moved and unread.isdisjoint(needed)
