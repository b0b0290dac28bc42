"""Finds where, between given offsets, the records of a lost range lie.

Needed only for a range with holes that has several causes. Every item is in anomalies/, which is
read as a stream: memory does not grow with the number of items.
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
    """The details of a lost record that identify its group, and when it was acked."""

    acks: int
    committed: bool
    acked_after_epoch: int | None = None
    sent_ns: int | None = None
    done_ns: int | None = None

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


class LostStretch(msgspec.Struct, frozen=True):
    """How many records of a stretch are lost, and when the first of them was acked."""

    count: int
    first_done_ns: int | None


def stretches_between(record: Record, lost: LostRange, starts: list[int]) -> list[LostStretch] | None:
    """Return the lost records of each stretch of `lost` that begins at one of `starts`.

    `starts` is sorted. None: anomalies/ does not hold exactly the records of the range.
    """
    group = _LostDetails(lost.acks, lost.committed, lost.acked_after_epoch)
    counts = [0] * len(starts)
    first_done_ns: list[int | None] = [None] * len(starts)
    try:
        for offset, details in _items(record, LOST, lost, group):
            at = bisect_right(starts, offset) - 1
            counts[at] += 1
            done_ns = details.sent_ns if details.done_ns is None else details.done_ns
            first_done_ns[at] = min((one for one in (first_done_ns[at], done_ns) if one is not None), default=None)
    except (pa.ArrowException, OSError, msgspec.DecodeError, KeyError, TypeError):
        return None
    return list(map(LostStretch, counts, first_done_ns)) if sum(counts) == lost.count else None


def lowest_between(record: Record, vanished: VanishedRange, starts: list[int]) -> list[int] | None:
    """Return the lowest offset of `vanished` in each stretch between `starts`.

    `starts` is sorted. A stretch without items has no entry. None: anomalies/ does not hold exactly
    the items of the range.
    """
    group = _VanishedDetails(vanished.committed, vanished.leader_epoch)
    lowest: dict[int, int] = {}
    count = 0
    try:
        for offset, _ in _items(record, vanished.kind, vanished, group):
            stretch = bisect_right(starts, offset)
            lowest[stretch] = min(offset, lowest.get(stretch, offset))
            count += 1
    except (pa.ArrowException, OSError, msgspec.DecodeError, KeyError, TypeError):
        return None
    return sorted(lowest.values()) if count == vanished.count else None


def _items(
    record: Record, kind: str, range_: LostRange | VanishedRange, group: _Details
) -> Iterator[tuple[int, _Details]]:
    """Yield the offsets and details of a group's items within its range."""
    files = [str(file) for file in sorted((record.folder / ANOMALIES_DIR).glob("*.parquet"))]
    decoder = msgspec.json.Decoder(type(group))
    where = (pc.field("kind") == kind) & of_partition(range_.topic, range_.partition)
    for batch in ds.dataset(files, format="parquet").to_batches(columns=["offset", "details"], filter=where):
        for offset, text in zip(batch["offset"].to_pylist(), batch["details"].to_pylist(), strict=True):
            if range_.first_offset <= offset <= range_.last_offset:
                details = decoder.decode(text)
                if details.group == group.group:
                    yield offset, details
