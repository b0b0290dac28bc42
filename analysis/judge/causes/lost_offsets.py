"""Finds where, between given offsets, the records of a lost range lie.

Needed only for a range with holes that has several causes. Every item is in anomalies/, which is
read as a stream: memory does not grow with the number of items.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from ebbtide.record.files import ANOMALIES_DIR

if TYPE_CHECKING:
    from analysis.reconcile.model import LostRange, VanishedRange


class _LostDetails(msgspec.Struct, frozen=True):
    """The columns of a lost record's details that identify its group."""

    acks: int
    committed: bool
    acked_after_epoch: int | None = None


class _VanishedDetails(msgspec.Struct, frozen=True):
    """The columns of a vanished item's details that identify its group.

    `also_lost` items belong to no group.
    """

    committed: bool = False
    leader_epoch: int | None = None
    also_lost: bool = False


def counts_between(record: Path, lost: LostRange, starts: list[int]) -> list[int] | None:
    """Count the records of `lost` in each stretch that begins at one of `starts`.

    `starts` is sorted. None: anomalies/ does not hold exactly the records of the range.
    """
    group = _LostDetails(lost.acks, lost.committed, lost.acked_after_epoch)
    counts = [0] * len(starts)
    try:
        for offset in _offsets(record, "lost", lost, group):
            counts[bisect_right(starts, offset) - 1] += 1
    except (pa.ArrowException, OSError, msgspec.DecodeError, KeyError, TypeError):
        return None
    return counts if sum(counts) == lost.count else None


def lowest_between(record: Path, vanished: VanishedRange, starts: list[int]) -> list[int] | None:
    """Return the lowest offset of `vanished` in each stretch between `starts`.

    `starts` is sorted. A stretch without items has no entry. None: anomalies/ does not hold exactly
    the items of the range.
    """
    group = _VanishedDetails(vanished.committed, vanished.leader_epoch)
    lowest: dict[int, int] = {}
    count = 0
    try:
        for offset in _offsets(record, vanished.kind, vanished, group):
            stretch = bisect_right(starts, offset)
            lowest[stretch] = min(offset, lowest.get(stretch, offset))
            count += 1
    except (pa.ArrowException, OSError, msgspec.DecodeError, KeyError, TypeError):
        return None
    return sorted(lowest.values()) if count == vanished.count else None


def _offsets(
    record: Path, kind: str, range_: LostRange | VanishedRange, group: _LostDetails | _VanishedDetails
) -> Iterator[int]:
    """Yield the offsets of a group's items within its range."""
    files = [str(file) for file in sorted((record / ANOMALIES_DIR).glob("*.parquet"))]
    decoder = msgspec.json.Decoder(type(group))
    place = (pc.field("topic") == range_.topic) & (pc.field("partition") == range_.partition)
    where = (pc.field("kind") == kind) & place
    for batch in ds.dataset(files, format="parquet").to_batches(columns=["offset", "details"], filter=where):
        for offset, details in zip(batch["offset"].to_pylist(), batch["details"].to_pylist(), strict=True):
            if range_.first_offset <= offset <= range_.last_offset and decoder.decode(details) == group:
                yield offset
