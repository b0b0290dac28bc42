"""Finds the values of a lost range, and the lowest offsets of a vanished one between given offsets.

Every item is in anomalies/.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import msgspec
import pyarrow.compute as pc

from analysis.record.files import of_partition
from analysis.record.record import Record
from ebbtide.errors import UsageError
from ebbtide.record.files import ANOMALIES_DIR
from ebbtide.record.tables import ANOMALY_SCHEMA
from ebbtide.rules.table import LOST
from ebbtide.untrusted.parquet import read_batches

if TYPE_CHECKING:
    from analysis.reconcile.model import LostRange, VanishedRange


class _Details(msgspec.Struct, frozen=True, kw_only=True):
    """The details of an item by which it belongs to a group. Items that are also lost belong to none."""

    acks: int | None = None
    committed: bool = False
    acked_after_epoch: int | None = None
    leader_epoch: int | None = None
    also_lost: bool = False


def values_of(record: Record, lost: LostRange) -> list[int] | None:
    """Return the values of the records of a lost range; None: anomalies/ does not hold exactly these."""
    group = _Details(acks=lost.acks, committed=lost.committed, acked_after_epoch=lost.acked_after_epoch)
    found = _items(record, LOST, lost, group)
    return None if found is None else [value for _, value in found]


def lowest_between(record: Record, vanished: VanishedRange, starts: list[int]) -> list[int] | None:
    """Return the lowest offset of `vanished` in each stretch between `starts`.

    `starts` is sorted. A stretch without items has no entry. None: anomalies/ does not hold exactly
    the items of the range.
    """
    group = _Details(committed=vanished.committed, leader_epoch=vanished.leader_epoch)
    found = _items(record, vanished.kind, vanished, group)
    if found is None:
        return None
    lowest: dict[int, int] = {}
    for offset, _ in found:
        stretch = bisect_right(starts, offset)
        lowest[stretch] = min(offset, lowest.get(stretch, offset))
    return sorted(lowest.values())


def _items(record: Record, kind: str, of: LostRange | VanishedRange, group: _Details) -> list[tuple[int, int]] | None:
    """Return offset and value of each item of a range; None: anomalies/ does not hold exactly its items."""
    decoder, found = msgspec.json.Decoder(_Details), list[tuple[int, int]]()
    where = (pc.field("kind") == kind) & of_partition(of.topic, of.partition)
    where &= (pc.field("offset") >= of.first_offset) & (pc.field("offset") <= of.last_offset)
    names = ("offset", "value", "details")
    files = record.folder.files(ANOMALIES_DIR)
    try:
        for batch in read_batches(files, ANOMALIES_DIR, schema=ANOMALY_SCHEMA, columns=names, where=where):
            rows = zip(*(batch[name].to_pylist() for name in names), strict=True)
            found += [(offset, value) for offset, value, details in rows if decoder.decode(details) == group]
    except (UsageError, msgspec.DecodeError, TypeError):
        return None
    return found if len(found) == of.count else None
