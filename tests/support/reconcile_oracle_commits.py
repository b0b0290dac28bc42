"""The rules of lost commits a second time, in plain Python over rows, for tests only."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from analysis.reconcile.model import LostCommits, Reconciliation
from ebbtide.record.manifest import Manifest

Row = dict[str, Any]
Item = tuple[str, str, int, int | None, int | None]
GoneBack = Counter[tuple[str, int, str, bool]]
"""By (topic, partition, group, settled)."""

OFFSETS_TOPIC = "__consumer_offsets"


def lost_commit_items(tables: dict[str, list[Row]], manifest: Manifest) -> list[Item]:
    """Every item of both kinds."""
    items = []
    for key in {_register(row) for row in tables.get("commits", [])}:
        rows = [row for row in tables["commits"] if _register(row) == key]
        if f"{key[1]}-{key[2]}" in manifest.final_offsets:
            items += _lost(rows, tables) + [item for item, _ in _back(rows, tables)]
    return items


def commits_gone_back(tables: dict[str, list[Row]], manifest: Manifest) -> GoneBack:
    """How many commits went back, by whether both answers are settled."""
    keys = {_register(row) for row in tables.get("commits", [])}
    return Counter(
        (topic, partition, group, settled)
        for group, topic, partition in keys
        if f"{topic}-{partition}" in manifest.final_offsets
        for _, settled in _back(
            [row for row in tables["commits"] if _register(row) == (group, topic, partition)], tables
        )
    )


def gone_back_of(reconciliation: Reconciliation) -> GoneBack:
    """The same as the judge gets it."""
    found: GoneBack = Counter()
    for one in reconciliation.groups_of(LostCommits):
        if one.kind == "commit-back":
            found[one.topic, one.partition, one.group, one.settled] += one.count
    return found


def _register(row: Row) -> tuple[str, str, int]:
    return row["group"], row["topic"], row["partition"]


def _writes(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["status"] != "served" and row["commit"] is not None]


def _is_acked(row: Row) -> bool:
    return row["status"] == "acked" and row["done_ns"] is not None


def _counting_answers(rows: list[Row], tables: dict[str, list[Row]]) -> list[Row]:
    answers = [row for row in rows if row["status"] == "served" and row["done_ns"] is not None]
    return [row for row in answers if _led_all_the_time(row, tables)]


def _led_all_the_time(answer: Row, tables: dict[str, list[Row]]) -> bool:
    states = [
        row
        for row in tables["partitions"]
        if row["topic"] == OFFSETS_TOPIC and row["partition"] == answer["offsets_partition"]
    ]
    in_force = [row for row in states if row["at_ns"] <= answer["asked_ns"]]
    changes = [row for row in states if answer["asked_ns"] < row["at_ns"] <= answer["done_ns"]]
    return bool(in_force) and in_force[-1]["leader"] == answer["broker"] and not changes


def _is_settled(answer: Row, tables: dict[str, list[Row]]) -> bool:
    """Whether the leader of the epoch had answered two questions in turn for its HW before."""
    states = [
        row
        for row in tables["partitions"]
        if row["topic"] == OFFSETS_TOPIC
        and row["partition"] == answer["offsets_partition"]
        and row["at_ns"] <= answer["asked_ns"]
    ]
    marks = [
        row
        for row in tables.get("watermarks", [])
        if row["topic"] == OFFSETS_TOPIC
        and row["partition"] == answer["offsets_partition"]
        and row["source"] == "list_offsets"
        and row["asked_ns"] is not None
        and row["leader_epoch"] == states[-1]["leader_epoch"]
    ]
    return any(
        one["at_ns"] < other["asked_ns"] and other["at_ns"] < answer["asked_ns"] for one in marks for other in marks
    )


def _shows_older(answer: Row, than: Row, rows: list[Row]) -> bool:
    """Whether the answer shows nothing, or a commit that was surely applied before the other."""
    if answer["offset"] is None:
        return True
    shown = [row for row in _writes(rows) if row["commit"] == answer["commit"]]
    return bool(shown) and all(_is_acked(row) and row["done_ns"] < than["asked_ns"] for row in shown)


def _lost(rows: list[Row], tables: dict[str, list[Row]]) -> list[Item]:
    lost = {}
    for answer in _counting_answers(rows, tables):
        if not _is_settled(answer, tables):
            continue
        promised = [row for row in _writes(rows) if _is_acked(row) and row["done_ns"] < answer["asked_ns"]]
        if not promised:
            continue
        newest = max(promised, key=lambda row: (row["asked_ns"], row["done_ns"], row["commit"]))
        shown_again = any(
            row["status"] == "served" and row["commit"] == newest["commit"] and row["asked_ns"] > answer["done_ns"]
            for row in rows
        )
        if _shows_older(answer, newest, rows) and not shown_again:
            lost[newest["commit"]] = newest
    return [("commit-lost", row["topic"], row["partition"], row["offset"], None) for row in lost.values()]


def _back(rows: list[Row], tables: dict[str, list[Row]]) -> list[tuple[Item, bool]]:
    """Every commit that went back, and whether both answers are settled."""
    answers = sorted(
        _counting_answers(rows, tables),
        key=lambda row: (row["asked_ns"], row["done_ns"], -1 if row["commit"] is None else row["commit"]),
    )
    items = []
    for before, after in pairwise(answers):
        shown = [row for row in _writes(rows) if row["commit"] == before["commit"]]
        in_turn = before["done_ns"] < after["asked_ns"]
        if shown and in_turn and _shows_older(after, shown[0], rows):
            item = ("commit-back", before["topic"], before["partition"], before["offset"], None)
            items.append((item, _is_settled(before, tables) and _is_settled(after, tables)))
    return items
