"""Counts what became of clients that ended and began again: records that nobody answered for, and records got again.

A producer that a step takes down leaves records that it had handed over and that no broker had answered for. Whether
they are in the log is chance, and Kafka promises nothing of them. A member of a group that ends between handling and
commit leaves records that the group gets again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from analysis.judge.history.sent import SentValues
from analysis.judge.history.steps import client_downs
from analysis.judge.rules.groups.positions import groups_of, why_unknown_membership
from analysis.record.groups import BITS
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan
from ebbtide.coverage_fact import Fact
from ebbtide.journal.outcomes import UNRESOLVED

FACTS = (
    Fact(
        "clients",
        "records-left-unanswered",
        "records that a producer had handed over without an answer when a step took it down",
    ),
    Fact(
        "clients",
        "records-left-unanswered-gone",
        "of them, those that the final read does not have",
        "",
        ("records-left-unanswered",),
    ),
    Fact(
        "clients",
        "records-got-again",
        "records that members of a group got again, such as after an end between handling and commit",
    ),
)


def count(record: Record) -> Mapping[str, int]:
    """Count the facts; one that needs missing parts of the record is left out."""
    facts = {}
    if record.has("sends"):
        left = record.seen(LeftUnanswered)
        facts["records-left-unanswered"] = left.handed
        if left.gone is not None:
            facts["records-left-unanswered-gone"] = left.gone
    if record.has("polls") and why_unknown_membership(record) is None:
        facts["records-got-again"] = record.seen(GotAgain)
    return facts


class Left(NamedTuple):
    """The records that producers left without an answer; `gone` is None without a whole final read."""

    handed: int
    gone: int | None


class LeftUnanswered(Scan[Left]):
    """Counts the records that producers left without an answer when a step took them down."""

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "sends": ("topic", "partition", "value", "producer", "status", "error"),
        "polls": ("value", "consumer"),
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        downs = client_downs(record.split_steps or ())
        self._producers = [one.client.id for one in downs if one.client.kind == "producer"]
        self._left = SentValues(record)

    def is_wanted(self, table: str) -> bool:
        """Whether the rows of a table matter."""
        return bool(self._producers) and (table == "sends" or len(self._left.values) > 0)

    def add(self, rows: Rows) -> None:
        """Keep the values without an answer, or look them up in the final read."""
        if rows.table == "polls":
            self._left.add_read(rows)
            return
        unresolved = rows.where_word("error", UNRESOLVED)
        self._left.add_sent(rows, unresolved & np.isin(rows.numbers("producer"), self._producers))

    def result(self) -> Left:
        """Return the counts."""
        return Left(len(self._left.values), self._left.gone)


class GotAgain(Scan[int]):
    """Counts the records that members of a group got after a member had got them."""

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {"polls": ("topic", "partition", "offset", "consumer")}

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._groups = groups_of(record)
        self._seen: dict[tuple[str, str, int], dict[int, int]] = {}
        self._again = 0

    def is_wanted(self, table: str) -> bool:
        """Whether the rows of a table matter."""
        return bool(self._groups)

    def add(self, rows: Rows) -> None:
        """Hold the offsets of each member against those that its group had got, in masks of 64 offsets."""
        offsets = rows.numbers("offset")
        for (topic, partition, consumer), here in rows.parts("partition", "consumer"):
            group = self._groups.get(consumer)
            if group is None:
                continue
            seen = self._seen.setdefault((group, topic, partition), {})
            distinct = np.unique(offsets[here])
            self._again += len(here) - len(distinct)
            blocks, begins = np.unique(distinct >> BITS, return_index=True)
            bits = np.uint64(1) << (distinct & (2**BITS - 1)).astype(np.uint64)
            masks = np.bitwise_or.reduceat(bits, begins)
            for block, mask in zip(blocks.tolist(), masks.tolist(), strict=True):
                before = seen.get(block, 0)
                self._again += (before & mask).bit_count()
                seen[block] = before | mask

    def result(self) -> int:
        """Return the count."""
        return self._again
