"""Counts the records that clients sent: those that were acked, and those that the final read does not have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from analysis.record.groups import Bools, Ints
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan


class SentValues:
    """Some values that were sent, and how many of them the final read lacks.

    All sends are added before the final read.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._places: set[tuple[str, int]] = set()
        self._parts: list[Ints] = [np.zeros(0, np.int64)]

    def add_sent(self, rows: Rows, which: Bools) -> None:
        """Add the values of some sends of a batch."""
        if which.any():
            self._parts.append(rows.numbers("value")[which])
            self._places |= {place for place, here in rows.parts("partition") if which[here].any()}

    def add_read(self, rows: Rows) -> None:
        """Look up the values in the final read; there are some."""
        found = rows.numbers("value")[rows.is_final() & rows.known("value")]
        at = np.minimum(np.searchsorted(self.values, found), len(self.values) - 1)
        self._is_there[at[self.values[at] == found]] = True

    @cached_property
    def values(self) -> Ints:
        """The values in order; all sends are added by then."""
        return np.unique(np.concatenate(self._parts))

    @cached_property
    def _is_there(self) -> Bools:
        return np.zeros(len(self.values), np.bool_)

    @property
    def is_known(self) -> bool:
        """Whether each of their partitions was read from its start to its end, so that it shows which are there."""
        manifest = self._record.manifest
        ends = [manifest.final_offsets.get(f"{topic}-{partition}") for topic, partition in self._places]
        is_whole = manifest.final_consumer is not None and all(end is not None and end.log_start <= 0 for end in ends)
        return is_whole and (not self._places or self._record.has("polls"))

    @property
    def gone(self) -> int | None:
        """How many of them the final read lacks; None: not known."""
        return int((~self._is_there).sum()) if self.is_known else None


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
        self._counts: tuple[Counter[int], Counter[int], Counter[int]] = Counter(), Counter(), Counter()
        self._unheard = SentValues(record)

    def add(self, rows: Rows) -> None:
        """Count the sends of a batch, or look up the values of the final read."""
        if rows.table == "polls":
            self._unheard.add_read(rows)
            return
        acked = rows.where_word("status", "acked")
        committed = acked & rows.where_word("txn_outcome", "committed") & rows.known("txn")
        columns = ("acks", acked), ("producer", acked), ("txn", committed)
        for (column, which), counts in zip(columns, self._counts, strict=True):
            found, times = np.unique(rows.numbers(column)[which], return_counts=True)
            counts.update(dict(zip(found.tolist(), times.tolist(), strict=True)))
        self._unheard.add_sent(rows, acked & (rows.numbers("acks") == 0))

    def is_wanted(self, table: str) -> bool:
        """Whether the rows of a table matter."""
        return table == "sends" or (len(self._unheard.values) > 0 and self._unheard.is_known)

    def result(self) -> AckedCounts:
        """Return the counts."""
        return AckedCounts(*self._counts, self._unheard.gone)


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
