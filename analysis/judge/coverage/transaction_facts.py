"""Counts by which transaction version the run's committed transactions ended, from the replicas' logs.

With transaction.version 2 (KIP-890) the coordinator raises the producer epoch as it ends a transaction, and the
marker has the new epoch. Before, the marker of a commit has the epoch of the transaction's records. The version that
counts is the one that the client speaks, and not only the feature level of the cluster.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from analysis.record.groups import Ints, added_up
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan
from ebbtide.coverage_fact import Fact

FACTS = (
    Fact(
        "clients",
        "markers-with-a-later-epoch",
        "committed transactions whose marker in a replica's log has a later producer epoch than their "
        "records, as with transaction.version 2; left out where the record lacks the logs",
        "KIP-890, part 2",
        ("transactions-committed",),
    ),
    Fact(
        "clients",
        "markers-with-the-same-epoch",
        "committed transactions whose marker has the producer epoch of their records, as before "
        "transaction.version 2; left out where the record lacks the logs",
        "KIP-98",
        ("transactions-committed",),
    ),
)

LATER = "markers-with-a-later-epoch"
SAME = "markers-with-the-same-epoch"

_Place = tuple[str, int]


def count(record: Record) -> Mapping[str, int]:
    """Count the facts."""
    return record.seen(MarkerEpochs)


class _LastRecord(NamedTuple):
    """The last record of a committed transaction in one partition."""

    txn: int
    place: _Place
    offset: int


class _Replica(NamedTuple):
    """What one replica's log has of a partition: its last records by value, and the markers of each producer id."""

    records: dict[int, tuple[int, int, int]]
    markers: dict[int, list[tuple[int, int]]]


class MarkerEpochs(Scan[Mapping[str, int]]):
    """Counts committed transactions by the epoch of their marker.

    A transaction counts once, and only if a replica's log has its record and its marker. Without the replicas' logs
    the facts are left out. So is a fact of 0 if a transaction does not count: it may be the one that the fact asks for.
    """

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "sends": ("topic", "partition", "txn", "txn_outcome", "status", "offset", "value"),
        "replicas": (
            *("broker", "topic", "partition", "offset", "value"),
            *("producer_id", "producer_epoch", "control"),
        ),
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._record = record
        self._ends: dict[tuple[str, int, int], tuple[int, int]] = {}
        self._replicas: dict[tuple[int, str, int], _Replica] = {}

    def is_wanted(self, table: str) -> bool:
        """Whether the rows of a table matter."""
        return table == "sends" or bool(self._ends)

    def add(self, rows: Rows) -> None:
        """Add a batch of either table."""
        if rows.table == "sends":
            self._add_sends(rows)
        else:
            self._add_replicas(rows)

    def _add_sends(self, rows: Rows) -> None:
        """Keep the last acked record of each committed transaction in each partition."""
        committed = rows.where_word("txn_outcome", "committed") & rows.where_word("status", "acked")
        committed &= rows.known("offset")
        offset, value, txn = (rows.numbers(name) for name in ("offset", "value", "txn"))
        if not committed.any():
            return
        for (topic, partition), every in rows.parts("partition"):
            here = every[committed[every]]
            # An idempotent producer's offsets rise with its values.
            last = {"offset": offset[here], "value": value[here]}
            (numbers,), ends = added_up([txn[here]], last, dict.fromkeys(last, np.maximum))
            for one, *end in zip(numbers.tolist(), ends["offset"].tolist(), ends["value"].tolist(), strict=True):
                key = topic, partition, one
                before = self._ends.get(key, (-1, -1))
                self._ends[key] = max(before[0], end[0]), max(before[1], end[1])

    @cached_property
    def _last(self) -> dict[int, _LastRecord]:
        """The last acked record of each committed transaction in each partition, by its value."""
        return {
            value: _LastRecord(txn, (topic, partition), offset)
            for (topic, partition, txn), (offset, value) in self._ends.items()
        }

    @cached_property
    def _values(self) -> Ints:
        return np.array(sorted(self._last), np.int64)

    def _add_replicas(self, rows: Rows) -> None:
        """Keep what each replica's log has of these records, and its markers."""
        value, is_marker = rows.numbers("value"), rows.flags("control")
        wanted = is_marker | (rows.known("value") & np.isin(value, self._values))
        wanted &= rows.numbers("producer_id") >= 0
        columns = [rows.numbers(name) for name in ("offset", "producer_id", "producer_epoch")]
        for (topic, partition, broker), every in rows.parts("partition", "broker"):
            replica = self._replicas.setdefault((broker, topic, partition), _Replica({}, {}))
            for at in every[wanted[every]].tolist():
                offset, producer, epoch = (int(column[at]) for column in columns)
                if is_marker[at]:
                    replica.markers.setdefault(producer, []).append((offset, epoch))
                else:
                    replica.records[int(value[at])] = offset, producer, epoch

    def result(self) -> Mapping[str, int]:
        """Return the facts."""
        if not self._record.has("sends") or (self._last and not self._record.has("replicas")):
            return {}
        found: Counter[str] = Counter({LATER: 0, SAME: 0})
        counted: dict[int, bool] = {}
        for (_, *place), replica in self._replicas.items():
            for markers in replica.markers.values():
                markers.sort()
            for value in replica.records:
                one = self._last[value]
                if tuple(place) == one.place and (is_later := _is_later(replica, value, one.offset)) is not None:
                    counted[one.txn] = counted.get(one.txn, False) or is_later
        found.update(LATER if is_later else SAME for is_later in counted.values())
        is_whole = counted.keys() == {one.txn for one in self._last.values()}
        return {name: count for name, count in found.items() if count or is_whole}


def _is_later(replica: _Replica, value: int, offset: int) -> bool | None:
    """Return whether the marker after this record has a later epoch; None if the log lacks one of the two."""
    at, producer, epoch = replica.records.get(value, (-1, -1, -1))
    markers = replica.markers.get(producer, [])
    index = bisect_right(markers, (offset, 1 << 16))
    return markers[index][1] > epoch if at == offset and index < len(markers) else None
