"""How many lost records lie between given offsets: asked only where several elections share a range with holes.

Read as a stream from anomalies/, which holds every lost record, so that nothing grows with their number.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from harness.record.files import ANOMALIES_DIR

if TYPE_CHECKING:
    from analysis.reconcile.model import LostRange


class _Details(msgspec.Struct, frozen=True):
    """What the details of a lost record say of its group."""

    acks: int
    committed: bool
    acked_after_epoch: int | None = None


def counts_between(record: Path, lost: LostRange, starts: list[int]) -> list[int] | None:
    """The number of records of `lost` in each stretch that begins at one of `starts`, which are sorted.

    None when anomalies/ does not hold exactly the records of the range.
    """
    files = [str(file) for file in sorted((record / ANOMALIES_DIR).glob("*.parquet"))]
    decoder = msgspec.json.Decoder(_Details)
    group = _Details(lost.acks, lost.committed, lost.acked_after_epoch)
    counts = [0] * len(starts)
    where = (pc.field("kind") == "lost") & (pc.field("topic") == lost.topic) & (pc.field("partition") == lost.partition)
    try:
        for batch in ds.dataset(files, format="parquet").to_batches(columns=["offset", "details"], filter=where):
            for offset, details in zip(batch["offset"].to_pylist(), batch["details"].to_pylist(), strict=True):
                if lost.first_offset <= offset <= lost.last_offset and decoder.decode(details) == group:
                    counts[bisect_right(starts, offset) - 1] += 1
    except (pa.ArrowException, OSError, msgspec.DecodeError, KeyError, TypeError):
        return None
    return counts if sum(counts) == lost.count else None
