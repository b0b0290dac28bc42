"""Finds the values of a lost range, and the lowest offsets of a vanished one between given offsets.

Every item is in anomalies/, which is read as a stream.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from analysis.record.files import of_partition
from analysis.record.record import Record
from ebbtide.record.files import ANOMALIES_DIR
from ebbtide.rules.table import LOST

if TYPE_CHECKING:
    from analysis.reconcile.model import LostRange, VanishedRange


class _LostDetails(msgspec.Struct, frozen=True):
    """The details of a lost record that identify its group."""

    acks: int
    committed: bool
    acked_after_epoch: int | None = None

    @property
    def group(self) -> tuple[object, ...]:
        """What lost records of one group share."""
        return self.acks, self.committed, self.acked_after_epoch


class _VanishedDetails(msgspec.Struct, frozen=True):
    """The columns of a vanished item's details that identify its group.

    `also_lost` items belong to no group.
    """

    committed: bool = False
    leader_epoch: int | None = None
    also_lost: bool = False

    @property
    def group(self) -> tuple[object, ...]:
        """What vanished items of one group share."""
        return self.committed, self.leader_epoch, self.also_lost


_Details = TypeVar("_Details", _LostDetails, _VanishedDetails)


def values_of(record: Record, lost: LostRange) -> list[int] | None:
    """Return the values of the records of a lost range; None: anomalies/ does not hold exactly these."""
    group = _LostDetails(lost.acks, lost.committed, lost.acked_after_epoch)
    try:
        values = [value for _, value, _ in _items(record, LOST, lost, group)]
    except (pa.ArrowException, OSError, msgspec.DecodeError, KeyError, TypeError):
        return None
    return values if len(values) == lost.count else None


def lowest_between(record: Record, vanished: VanishedRange, starts: list[int]) -> list[int] | None:
    """Return the lowest offset of `vanished` in each stretch between `starts`.

    `starts` is sorted. A stretch without items has no entry. None: anomalies/ does not hold exactly
    the items of the range.
    """
    group = _VanishedDetails(vanished.committed, vanished.leader_epoch)
    lowest: dict[int, int] = {}
    count = 0
    try:
        for offset, _, _ in _items(record, vanished.kind, vanished, group):
            stretch = bisect_right(starts, offset)
            lowest[stretch] = min(offset, lowest.get(stretch, offset))
            count += 1
    except (pa.ArrowException, OSError, msgspec.DecodeError, KeyError, TypeError):
        return None
    return sorted(lowest.values()) if count == vanished.count else None


def _items(
    record: Record, kind: str, range_: LostRange | VanishedRange, group: _Details
) -> Iterator[tuple[int, int, _Details]]:
    """Yield the offsets, values and details of a group's items within its range."""
    files = [str(file) for file in sorted((record.folder / ANOMALIES_DIR).glob("*.parquet"))]
    decoder = msgspec.json.Decoder(type(group))
    where = (pc.field("kind") == kind) & of_partition(range_.topic, range_.partition)
    for batch in ds.dataset(files, format="parquet").to_batches(columns=["offset", "value", "details"], filter=where):
        for row in batch.to_pylist():
            offset = row["offset"]
            if range_.first_offset <= offset <= range_.last_offset:
                details = decoder.decode(row["details"])
                if details.group == group.group:
                    yield offset, row["value"], details
