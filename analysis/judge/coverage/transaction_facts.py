"""Counts by which transaction version the run's committed transactions ended, from the replicas' logs.

With transaction.version 2 (KIP-890) the coordinator raises the producer epoch as it ends a transaction, and the
marker has the new epoch. Before, the marker of a commit has the epoch of the transaction's records. The version that
counts is the one that the client speaks, and not only the feature level of the cluster.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from analysis.record.record import Record
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


class _LastRecord(NamedTuple):
    """The last record of a committed transaction in one partition."""

    txn: int
    place: _Place
    offset: int


class _ReplicaRow(msgspec.Struct, frozen=True):
    """One row of replicas."""

    broker: int
    topic: str
    partition: int
    offset: int
    value: int | None
    producer_id: int
    producer_epoch: int
    control: bool


class _Replica(NamedTuple):
    """What one replica's log has of a partition: its last records by value, and the markers of each producer id."""

    records: dict[int, tuple[int, int, int]]
    markers: dict[int, list[tuple[int, int]]]


def transaction_facts(record: Record) -> Mapping[str, int]:
    """Count committed transactions by the epoch of their marker.

    A transaction counts once, and only if a replica's log has its record and its marker. Without the replicas' logs
    the facts are left out. So is a fact of 0 if a transaction does not count: it may be the one that the fact asks for.
    """
    if not record.has("sends"):
        return {}
    last = _last_records(record)
    if last and not record.has("replicas"):
        return {}
    found: Counter[str] = Counter({LATER: 0, SAME: 0})
    replicas = _replicas(record, last) if last else {}
    counted: dict[int, bool] = {}
    for value, one in last.items():
        for (_, *place), replica in replicas.items():
            if tuple(place) == one.place and (is_later := _is_later(replica, value, one.offset)) is not None:
                counted[one.txn] = counted.get(one.txn, False) or is_later
    found.update(LATER if is_later else SAME for is_later in counted.values())
    is_whole = counted.keys() == {one.txn for one in last.values()}
    return {name: count for name, count in found.items() if count or is_whole}


def _last_records(record: Record) -> dict[int, _LastRecord]:
    """Return the last acked record of each committed transaction in each partition, by its value."""
    ends: dict[tuple[str, int, int], tuple[int, int]] = {}
    acked = (pc.field("txn_outcome") == "committed") & (pc.field("status") == "acked") & pc.field("offset").is_valid()
    for batch in record.batches("sends", ["topic", "partition", "txn", "offset", "value"], acked):
        grouped = pa.Table.from_batches([batch]).group_by(["topic", "partition", "txn"])
        # An idempotent producer's offsets rise with its values.
        for row in grouped.aggregate([("offset", "max"), ("value", "max")]).to_pylist():
            key = row["topic"], row["partition"], row["txn"]
            ends[key] = max(ends.get(key, (-1, -1)), (row["offset_max"], row["value_max"]))
    return {
        value: _LastRecord(txn, (topic, partition), offset) for (topic, partition, txn), (offset, value) in ends.items()
    }


def _replicas(record: Record, last: Mapping[int, _LastRecord]) -> dict[tuple[int, str, int], _Replica]:
    """Return what each replica's log has of these records, and its markers."""
    values = pa.array(last, pa.int64())
    wanted = pc.field("control") | pc.field("value").isin(values)
    found: dict[tuple[int, str, int], _Replica] = {}
    for row in record.rows("replicas", _ReplicaRow, wanted & (pc.field("producer_id") >= 0)):
        replica = found.setdefault((row.broker, row.topic, row.partition), _Replica({}, {}))
        if row.control:
            replica.markers.setdefault(row.producer_id, []).append((row.offset, row.producer_epoch))
        elif row.value is not None:
            replica.records[row.value] = row.offset, row.producer_id, row.producer_epoch
    for replica in found.values():
        for markers in replica.markers.values():
            markers.sort()
    return found


def _is_later(replica: _Replica, value: int, offset: int) -> bool | None:
    """Return whether the marker after this record has a later epoch; None if the log lacks one of the two."""
    at, producer, epoch = replica.records.get(value, (-1, -1, -1))
    markers = replica.markers.get(producer, [])
    index = bisect_right(markers, (offset, 1 << 16))
    return markers[index][1] > epoch if at == offset and index < len(markers) else None
