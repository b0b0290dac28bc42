"""Where between given offsets the records of a range lie: asked only where a range with holes has several answers.

Read as a stream from anomalies/, which holds every item, so that nothing grows with their number.
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
    from analysis.reconcile.model import GoneRange, LostRange


class _LostDetails(msgspec.Struct, frozen=True):
    """What the details of a lost record say of its group."""

    acks: int
    committed: bool
    acked_after_epoch: int | None = None


class _GoneDetails(msgspec.Struct, frozen=True):
    """What the details of an item that shows a record gone say of its group; `also_lost`: it is in none."""

    committed: bool = False
    leader_epoch: int | None = None
    also_lost: bool = False


def counts_between(record: Path, lost: LostRange, starts: list[int]) -> list[int] | None:
    """The number of records of `lost` in each stretch that begins at one of `starts`, which are sorted.

    None when anomalies/ does not hold exactly the records of the range.
    """
    group = _LostDetails(lost.acks, lost.committed, lost.acked_after_epoch)
    counts = [0] * len(starts)
    try:
        for offset in _offsets(record, "lost", lost, group):
            counts[bisect_right(starts, offset) - 1] += 1
    except (pa.ArrowException, OSError, msgspec.DecodeError, KeyError, TypeError):
        return None
    return counts if sum(counts) == lost.count else None


def lowest_between(record: Path, gone: GoneRange, starts: list[int]) -> list[int] | None:
    """The lowest offset of `gone` in each stretch that begins at one of `starts`; a stretch without one has none.

    None when anomalies/ does not hold exactly the items of the range.
    """
    group = _GoneDetails(gone.committed, gone.leader_epoch)
    lowest: dict[int, int] = {}
    count = 0
    try:
        for offset in _offsets(record, gone.kind, gone, group):
            stretch = bisect_right(starts, offset)
            lowest[stretch] = min(offset, lowest.get(stretch, offset))
            count += 1
    except (pa.ArrowException, OSError, msgspec.DecodeError, KeyError, TypeError):
        return None
    return sorted(lowest.values()) if count == gone.count else None


def _offsets(
    record: Path, kind: str, range_: LostRange | GoneRange, group: _LostDetails | _GoneDetails
) -> Iterator[int]:
    """The offsets of the items of one group within its range."""
    files = [str(file) for file in sorted((record / ANOMALIES_DIR).glob("*.parquet"))]
    decoder = msgspec.json.Decoder(type(group))
    place = (pc.field("topic") == range_.topic) & (pc.field("partition") == range_.partition)
    where = (pc.field("kind") == kind) & place
    for batch in ds.dataset(files, format="parquet").to_batches(columns=["offset", "details"], filter=where):
        for offset, details in zip(batch["offset"].to_pylist(), batch["details"].to_pylist(), strict=True):
            if range_.first_offset <= offset <= range_.last_offset and decoder.decode(details) == group:
                yield offset
