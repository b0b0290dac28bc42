"""Reads the columns of one partition: what was sent, read and served, and what the logs have in the end.

A partition of many records is thinned out. What decides is kept: the lost records, what else stands at their offsets,
and where each epoch begins and ends. Of the rest, each n-th record stays: it only sharpens by when others were there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from analysis.causes.history import NEVER, UNKNOWN, AckedSends, Ints, ReadRows, Watermarks, column
from analysis.record.files import of_partition
from analysis.record.record import Record
from ebbtide.record.files import ANOMALIES_DIR
from ebbtide.record.tables import ANOMALY_SCHEMA
from ebbtide.rules.table import LOST, VANISHED
from ebbtide.untrusted.parquet import read_rows

_WHOLE_MAX = 500_000
"""A partition with at most so many acked records is read whole; of a larger one, about as many records stay."""


class PartitionTables:
    """The tables of a partition. Sends are read first: they say which records are kept of the other tables."""

    def __init__(self, record: Record, topic: str, partition: int) -> None:
        self._record = record
        self._mine = of_partition(topic, partition)
        acked = self._mine & (pc.field("status") == "acked") & pc.field("offset").is_valid()
        count = sum(batch.num_rows for batch in record.batches("sends", ["value"], acked))
        self._acked = acked
        self._each = -(-count // _WHOLE_MAX)
        self._lost = self._listed() if self._each > 1 else (column(), column())
        self._kept: Ints | None = None

    def _listed(self) -> tuple[Ints, Ints]:
        """Return the values and the offsets of the records that the reconciliation lists as missing."""
        files, where = self._record.folder.files(ANOMALIES_DIR), self._mine & pc.field("kind").isin([LOST, VANISHED])
        table = read_rows(files, ANOMALIES_DIR, schema=ANOMALY_SCHEMA, columns=["value", "offset"], where=where)
        value, offset = (np.unique(_ints(table[name].combine_chunks())) for name in ("value", "offset"))
        return value, offset

    def sends(self) -> AckedSends:
        """Return the acked records."""
        names = ("value", "offset", "acks", "sent_ns", "done_ns")
        parts = []
        for part in self._batches("sends", names, self._acked):
            if self._each > 1:
                value, offset = part[0], part[1]
                keep = (value % self._each == 0) | np.isin(value, self._lost[0]) | np.isin(offset, self._lost[1])
                part = [one[keep] for one in part]
            parts.append(part)
        found = dict(zip(names, _joined(parts, len(names)), strict=True))
        self._kept = np.unique(found["value"])
        found["done_ns"] = np.where(found["done_ns"] == UNKNOWN, NEVER, found["done_ns"])
        return AckedSends(**found)

    def polls(self) -> tuple[ReadRows, ReadRows]:
        """Return what ordinary consumers read, and what the final read got."""
        value, offset, epoch, at_ns, consumer = self._rows("polls", "polled_ns", "consumer")
        reader = self._record.manifest.final_consumer
        final = consumer == (UNKNOWN if reader is None else reader)
        polls, last = (
            ReadRows(value=value[mine], offset=offset[mine], epoch=epoch[mine], at_ns=at_ns[mine])
            for mine in (~final, final)
        )
        return polls, last

    def replicas(self) -> dict[int, ReadRows]:
        """Return the log of each broker at the end."""
        value, offset, epoch, broker = self._rows("replicas", "broker")
        return {
            one: ReadRows(
                value=value[mine], offset=offset[mine], epoch=epoch[mine], at_ns=np.full(int(mine.sum()), NEVER)
            )
            for one in np.unique(broker).tolist()
            for mine in [broker == one]
        }

    def watermarks(self) -> Watermarks:
        """Return the HWs that leaders served, with their leader epochs."""
        if not self._record.has("watermarks"):
            return Watermarks()
        names = ("broker", "leader_epoch", "high_watermark", "asked_ns", "at_ns")
        where = self._mine & (pc.field("source") == "list_offsets") & pc.field("leader_epoch").is_valid()
        broker, epoch, high, asked, at = _joined(list(self._batches("watermarks", names, where)), len(names))
        return Watermarks(broker=broker, epoch=epoch, high_watermark=high, asked_ns=asked, at_ns=at)

    def _rows(self, table: str, *more: str) -> list[Ints]:
        """Return value, offset, leader epoch and more columns of a table of rows that somebody read."""
        names = ("value", "offset", "leader_epoch", *more)
        parts = []
        for part in self._batches(table, names, self._mine) if self._record.has(table) else ():
            if self._each > 1:
                keep = self._keeps(part[0], part[1], part[2], part[-1])
                part = [one[keep] for one in part]
            parts.append(part)
        return _joined(parts, len(names))

    def _keeps(self, value: Ints, offset: Ints, epoch: Ints, of: Ints) -> npt.NDArray[np.bool_]:
        """Return which rows decide: those of kept records, and the first and the last one of each epoch and reader."""
        assert self._kept is not None
        keep = np.isin(value, self._kept) | np.isin(offset, self._lost[1])
        groups = epoch * (int(of.max()) + 1) + of
        for group in np.unique(groups).tolist():
            mine = np.flatnonzero(groups == group)
            keep[[mine[offset[mine].argmin()], mine[offset[mine].argmax()]]] = True
        return keep

    def _batches(self, table: str, names: Sequence[str], where: pc.Expression) -> Iterator[list[Ints]]:
        for batch in self._record.batches(table, list(names), where):
            yield [_ints(batch[name]) for name in names]


def _joined(parts: Sequence[Sequence[Ints]], count: int) -> list[Ints]:
    return [np.concatenate([column(), *(part[at] for part in parts)]) for at in range(count)]


def _ints(values: pa.Array) -> Ints:
    found: Ints = pc.fill_null(values.cast(pa.int64()), UNKNOWN).to_numpy(zero_copy_only=False)
    return found
