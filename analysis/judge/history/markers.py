"""Finds the marker of each transaction in the replicas' logs: whether it says COMMIT or ABORT.

The tables do not have what a marker says, so the segments of raw/ are read.

- The last acked record of a transaction in a partition stands for the others. Its marker is the next one of its
  producer id, with nothing missing between the two: compaction or a lost segment may have taken a marker.
- Only markers below the HW of the final read count. Where replicas differ, nothing counts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from analysis.record.groups import added_up
from analysis.record.record import Record
from analysis.record.scans import Rows, Scan
from ebbtide.logs.batches import Batch, ends_with_commit
from ebbtide.logs.scan import Damage, scan_file
from ebbtide.logs.segments import TopicPartition, partition_folders, segment_files
from ebbtide.record.files import RAW_DIR, raw_log_dirs

Outcome = Literal["committed", "aborted"]
_OUTCOMES: tuple[Outcome, ...] = ("committed", "aborted")


class EndedTransaction(NamedTuple):
    """A transaction whose outcome the producer knows."""

    txn: int
    outcome: Outcome


class Marker(NamedTuple):
    """A marker, and the producer epochs of both: with transaction.version 2, that of the marker is higher."""

    offset: int
    says: str
    epoch: int
    epoch_of_records: int


EndsOfTransactions = Mapping[TopicPartition, Mapping[int, EndedTransaction]]


class LastOfTransactions(Scan[EndsOfTransactions]):
    """Finds the offset of the last acked record of each transaction in each partition."""

    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "sends": ("topic", "partition", "txn", "txn_outcome", "status", "offset")
    }

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._last: dict[tuple[TopicPartition, EndedTransaction], int] = {}

    def add(self, rows: Rows) -> None:
        """Add a batch."""
        known = rows.where_word("status", "acked") & rows.known("offset") & rows.known("txn")
        offset, txn = rows.numbers("offset"), rows.numbers("txn")
        for outcome in _OUTCOMES:
            ended = known & rows.where_word("txn_outcome", outcome)
            if not ended.any():
                continue
            for place, every in rows.parts("partition"):
                here = every[ended[every]]
                (numbers,), last = added_up([txn[here]], {"offset": offset[here]}, {"offset": np.maximum})
                for one, highest in zip(numbers.tolist(), last["offset"].tolist(), strict=True):
                    key = TopicPartition(*place), EndedTransaction(one, outcome)
                    self._last[key] = max(self._last.get(key, -1), highest)

    def result(self) -> EndsOfTransactions:
        """Return the transactions by partition and offset."""
        found: dict[TopicPartition, dict[int, EndedTransaction]] = {}
        for (at, ended), offset in self._last.items():
            found.setdefault(at, {})[offset] = ended
        return found


def markers_of(record: Record, ends: EndsOfTransactions) -> dict[tuple[TopicPartition, int], Marker]:
    """Return the marker after each of these offsets, as far as the logs in raw/ show it."""
    seen: dict[tuple[TopicPartition, int], set[Marker]] = {}
    for broker in record.manifest.topology.brokers:
        folders = partition_folders(*raw_log_dirs(record.folder / RAW_DIR / f"broker-{broker}"))
        for at in folders.keys() & ends.keys():
            for offset, marker in _markers_after(batches_in(folders[at]), sorted(ends[at])):
                seen.setdefault((at, offset), set()).add(marker)
    final = record.manifest.final_offsets
    return {
        (at, offset): marker
        for (at, offset), (marker, *others) in seen.items()
        if not others and str(at) in final and marker.offset < final[str(at)].high_watermark
    }


def _markers_after(batches: Iterable[Batch], offsets: Sequence[int]) -> Iterator[tuple[int, Marker]]:
    """Yield the marker after each of these offsets, which are in order."""
    waiting: dict[int, list[tuple[int, int]]] = {}
    following = -1
    for batch in batches:
        if batch.base_offset != following:
            waiting.clear()
        following = batch.next_offset
        if batch.control:
            ended, commits = waiting.pop(batch.producer_id, []), ends_with_commit(batch)
            for offset, epoch in ended if commits is not None else ():
                says = "COMMIT" if commits else "ABORT"
                yield offset, Marker(batch.base_offset, says, batch.producer_epoch, epoch)
        elif batch.transactional:
            asked = offsets[bisect_left(offsets, batch.base_offset) : bisect_right(offsets, batch.last_offset)]
            waiting.setdefault(batch.producer_id, []).extend((offset, batch.producer_epoch) for offset in asked)


def batches_in(folder: Path) -> Iterator[Batch]:
    """Yield the batches of a log, up to its first damage."""
    for path in segment_files(folder).values():
        for item in scan_file(path, verify=False):
            if isinstance(item, Damage):
                return
            yield item
