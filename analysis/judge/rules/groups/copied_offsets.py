"""Finds the offsets that copiers surely committed in transactions, and what coordinators served last.

A copier commits the offsets of its group in the transaction of its copies. Kafka begins no transaction of a producer
before the last one has ended in each of its partitions. So once a copy of a later transaction was acked, the
coordinator of the group has the offsets of the earlier one, if that was committed. It may still be about to serve them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from analysis.causes.evidence import NEVER
from analysis.judge.history.evidence import Row
from analysis.record.groups import added_up
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan
from ebbtide.scenario.model import CopiedOffsets, Scenario

Place = tuple[str, str, int]
"""A group, and a partition of the topic that it reads."""
_SERVED_NS = 1_000_000_000
"""A coordinator serves within this time what is in its log: until 3.9, a thread of its own takes it over."""


class _Transaction(NamedTuple):
    last_value: int
    acked_ns: int
    is_committed: bool


class CopiedOffset(NamedTuple):
    """Where a group must be, and the last answer on it.

    `committed` is the offset behind the last input whose copy surely was committed before the question.
    """

    answer: Row
    committed: int


class FindCopiedOffsets(Scan[Mapping[Place, CopiedOffset]]):
    """Compares what copiers committed with what coordinators served last.

    The pass that sums up tables reads copies before sends, so this scan reads them by itself, where there are copiers.
    """

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "sends": ("producer", "value", "txn", "txn_outcome", "status", "done_ns"),
        "copies": ("group", "topic", "partition", "offset", "producer", "value"),
        "commits": ("group", "topic", "partition", "offset", "status", "error", "broker", "asked_ns"),
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        scenario = record.readable_scenario
        self._groups = promised_groups(copied_offsets(scenario))
        producers = scenario.producers if scenario is not None else ()
        self._copiers = [one.id for one in producers if one.group in self._groups]
        self._transactions: dict[tuple[int, int], _Transaction] = {}
        self._copied: dict[Place, list[tuple[int, int]]] = defaultdict(list)
        self._answers: dict[Place, Row] = {}

    def is_wanted(self, table: str) -> bool:
        """Whether the rows of a table matter."""
        return bool(self._copiers)

    def add(self, rows: Rows) -> None:
        """Add a batch of one of the tables."""
        {"sends": self._add_sends, "copies": self._add_copies, "commits": self._add_answers}[rows.table](rows)

    def _add_sends(self, rows: Rows) -> None:
        here = np.flatnonzero(np.isin(rows.numbers("producer"), self._copiers) & rows.known("txn"))
        acked = rows.where_word("status", "acked") & rows.known("done_ns")
        columns = {
            "value": rows.numbers("value")[here],
            "acked_ns": np.where(acked, rows.numbers("done_ns"), NEVER)[here],
            "is_committed": rows.where_word("txn_outcome", "committed")[here].astype(np.int64),
        }
        by: dict[str, np.ufunc] = {"value": np.maximum, "acked_ns": np.minimum, "is_committed": np.minimum}
        keys, found = added_up([rows.numbers(name)[here] for name in ("producer", "txn")], columns, by)
        for producer, txn, *row in zip(*(one.tolist() for one in (*keys, *found.values())), strict=True):
            new = _Transaction(row[0], row[1], bool(row[2]))
            old = self._transactions.get((producer, txn), new)
            self._transactions[producer, txn] = _Transaction(
                max(old.last_value, new.last_value),
                min(old.acked_ns, new.acked_ns),
                old.is_committed and new.is_committed,
            )

    def _add_copies(self, rows: Rows) -> None:
        """Keep of each transaction the last input, and since when the coordinator surely has its offset."""
        for producer in self._copiers:
            mine = sorted(one for (owner, _), one in self._transactions.items() if owner == producer)
            if not mine:
                continue
            acked = np.array([one.acked_ns for one in mine], np.int64)
            since = np.append(np.minimum.accumulate(acked[::-1])[::-1][1:], NEVER)
            since[[not one.is_committed for one in mine]] = NEVER
            last_values = np.array([one.last_value for one in mine], np.int64)
            for (topic, partition), every in rows.parts("partition"):
                here = every[rows.numbers("producer")[every] == producer]
                at = np.searchsorted(last_values, rows.numbers("value")[here])
                here, at = here[at < len(mine)], at[at < len(mine)]
                ends = {"offset": rows.numbers("offset")[here] + 1}
                codes, groups = rows.words("group")
                (group, since_ns), last = added_up([codes[here], since[at]], ends, {"offset": np.maximum})
                for code, ns, offset in zip(group.tolist(), since_ns.tolist(), last["offset"].tolist(), strict=True):
                    if ns < NEVER:
                        self._copied[groups[code], topic, partition].append((ns, offset))

    def _add_answers(self, rows: Rows) -> None:
        served = rows.where_word("status", "served") & ~rows.known("error")
        for row in rows.at(np.flatnonzero(served)).select(self.columns["commits"]).to_pylist():
            place = row["group"], row["topic"], row["partition"]
            if place[0] in self._groups and row["asked_ns"] >= self._answers.get(place, row)["asked_ns"]:
                self._answers[place] = {name: row[name] for name in (*_ABOUT, "offset", "broker", "asked_ns")}

    def result(self) -> Mapping[Place, CopiedOffset]:
        """Return each place with an answer after a commit."""
        found: dict[Place, CopiedOffset] = {}
        for place, answer in self._answers.items():
            by_ns = answer["asked_ns"] - _SERVED_NS
            before = [offset for since_ns, offset in self._copied.get(place, ()) if since_ns < by_ns]
            if before:
                found[place] = CopiedOffset(answer, max(before))
        return found


_ABOUT = ("group", "topic", "partition")


def copied_offsets(scenario: Scenario | None) -> dict[str, CopiedOffsets] | None:
    """Return when the copiers of each group commit its offsets; None without a scenario."""
    if scenario is None:
        return None
    found: dict[str, CopiedOffsets] = {}
    for one in scenario.producers:
        if one.copies is not None and one.group is not None and found.get(one.group) != "after-transaction":
            found[one.group] = one.copied_offsets
    return found


def promised_groups(offsets: Mapping[str, CopiedOffsets] | None) -> set[str]:
    """Return the groups whose copiers all commit their offsets in their transactions."""
    return {group for group, when in (offsets or {}).items() if when == "in-transaction"}
