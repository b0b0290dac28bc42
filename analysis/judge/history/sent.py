"""Counts the records that clients sent: those that were acked, and those that the final read does not have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from analysis.record.groups import Ints
from analysis.record.record import Record
from analysis.record.row_batches import Rows
from analysis.record.scans import Scan


class AckedCounts(NamedTuple):
    """The acked records.

    - `by_acks`: how many there are. Those with acks=0 count as acked, but no broker acked them.
    - `by_producer`: how many each producer has.
    - `by_txn`: how many each committed transaction has.
    - `acks_0_gone`: how many of acks=0 the final read does not have. None: a partition was not read from its start to
      its end, so which records were there is not known.
    """

    by_acks: Mapping[int, int]
    by_producer: Mapping[int, int]
    by_txn: Mapping[int, int]
    acks_0_gone: int | None


class CountAckedSends(Scan[AckedCounts]):
    """Counts acked sends."""

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "sends": ("topic", "partition", "value", "producer", "acks", "status", "txn", "txn_outcome"),
        "polls": ("value", "consumer"),
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._record = record
        self._counts: tuple[Counter[int], Counter[int], Counter[int]] = Counter(), Counter(), Counter()
        self._places: set[tuple[str, int]] = set()
        self._values: list[Ints] = []

    def add(self, rows: Rows) -> None:
        """Count the sends of a batch, or look up the values of the final read."""
        if rows.table == "polls":
            here = rows.is_final() & rows.known("value")
            at = np.minimum(np.searchsorted(self._sent, value := rows.numbers("value")[here]), len(self._sent) - 1)
            self._is_there[at[self._sent[at] == value]] = True
            return
        acked, acks = rows.where_word("status", "acked"), rows.numbers("acks")
        committed = acked & rows.where_word("txn_outcome", "committed") & rows.known("txn")
        columns = ("acks", acked), ("producer", acked), ("txn", committed)
        for (column, which), counts in zip(columns, self._counts, strict=True):
            found, times = np.unique(rows.numbers(column)[which], return_counts=True)
            counts.update(dict(zip(found.tolist(), times.tolist(), strict=True)))
        if len(unheard := np.flatnonzero(acked & (acks == 0))):
            self._values.append(rows.numbers("value")[unheard])
            self._places |= {place for place, here in rows.parts("partition") if (acked & (acks == 0))[here].any()}

    @cached_property
    def _sent(self) -> Ints:
        """The values that were sent with acks=0; all sends are read by then."""
        return np.unique(np.concatenate(self._values))

    @cached_property
    def _is_there(self) -> Ints:
        return np.zeros(len(self._sent), np.bool_)

    @property
    def _is_known(self) -> bool:
        """Whether the final read shows which records of acks=0 are there."""
        manifest = self._record.manifest
        ends = [manifest.final_offsets.get(f"{topic}-{partition}") for topic, partition in self._places]
        is_whole = manifest.final_consumer is not None and all(end is not None and end.log_start <= 0 for end in ends)
        return is_whole and (not self._places or self._record.has("polls"))

    def is_wanted(self, table: str) -> bool:
        """Whether the rows of a table matter."""
        return table == "sends" or (bool(self._places) and self._is_known)

    def result(self) -> AckedCounts:
        """Return the counts."""
        gone = int((~self._is_there).sum()) if self._places and self._is_known else 0
        return AckedCounts(*self._counts, gone if self._is_known else None)


class CountCopies(Scan[Mapping[str, int]]):
    """Counts the records that copiers sent, by group; empty without copies."""

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {"copies": ("group",)}

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._counts: Counter[str] = Counter()

    def add(self, rows: Rows) -> None:
        """Count a batch."""
        codes, groups = rows.words("group")
        self._counts.update(groups[code] for code in codes.tolist())

    def result(self) -> Mapping[str, int]:
        """Return the counts."""
        return self._counts
