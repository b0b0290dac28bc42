"""Reads the columns of one partition: what was sent, read and served, and what the logs have in the end.

A partition of many records is thinned out. What decides is kept: the lost records, what else stands at their offsets,
and where each epoch begins and ends. Of the rest, each n-th record stays: it only sharpens by when others were there.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.causes.evidence import NEVER, UNKNOWN, AckedSends, Flags, Ints, ReadRows, Watermarks, column
from analysis.record.files import of_partition
from analysis.record.record import Record
from ebbtide.record.files import ANOMALIES_DIR
from ebbtide.record.tables import ANOMALY_SCHEMA
from ebbtide.rules.table import LOST, VANISHED
from ebbtide.untrusted.parquet import read_rows

_WHOLE_MAX = 500_000
"""A partition with at most so many acked records is read whole; of a larger one, about as many records stay."""
_ROW = ("value", "offset", "leader_epoch")


class PartitionTables:
    """The tables of a partition."""

    def __init__(self, record: Record, topic: str, partition: int) -> None:
        self._record = record
        self._mine = of_partition(topic, partition)
        self._acked = self._mine & (pc.field("status") == "acked") & pc.field("offset").is_valid()
        count = sum(batch.num_rows for batch in record.batches("sends", ["value"], self._acked))
        self._each = -(-count // _WHOLE_MAX)
        self._lost = self._listed() if self._each > 1 else (column(), column())

    def _listed(self) -> tuple[Ints, Ints]:
        """Return the values and the offsets of the records that the reconciliation lists as missing."""
        files, where = self._record.folder.files(ANOMALIES_DIR), self._mine & pc.field("kind").isin([LOST, VANISHED])
        table = read_rows(files, ANOMALIES_DIR, schema=ANOMALY_SCHEMA, columns=["value", "offset"], where=where)
        value, offset = (np.unique(_ints(table[name].combine_chunks())) for name in ("value", "offset"))
        return value, offset

    def sends(self) -> AckedSends:
        """Return the acked records."""
        found = self._columns("sends", AckedSends.__struct_fields__, self._acked)
        done = found.pop("done_ns")
        return AckedSends(done_ns=np.where(done == UNKNOWN, NEVER, done), **found)

    def polls(self) -> tuple[ReadRows, ReadRows]:
        """Return what ordinary consumers read, and what the final read got."""
        found, reader = self._columns("polls", (*_ROW, "polled_ns", "consumer")), self._record.manifest.final_consumer
        is_final = found["consumer"] == (UNKNOWN if reader is None else reader)
        return _rows(found, ~is_final), _rows(found, is_final)

    def replicas(self) -> dict[int, ReadRows]:
        """Return the log of each broker at the end."""
        found = self._columns("replicas", (*_ROW, "broker"))
        return {one: _rows(found, found["broker"] == one) for one in np.unique(found["broker"]).tolist()}

    def watermarks(self) -> Watermarks:
        """Return the HWs that leaders served, with their leader epochs."""
        where = self._mine & (pc.field("source") == "list_offsets") & pc.field("leader_epoch").is_valid()
        found = self._columns("watermarks", ("broker", "leader_epoch", "high_watermark", "asked_ns", "at_ns"), where)
        return Watermarks(epoch=found.pop("leader_epoch"), **found)

    def _columns(self, table: str, names: tuple[str, ...], where: pc.Expression | None = None) -> dict[str, Ints]:
        parts: dict[str, list[Ints]] = {name: [column()] for name in names}
        where = self._mine if where is None else where
        for batch in self._record.batches(table, list(names), where) if self._record.has(table) else ():
            part = {name: _ints(batch[name]) for name in names}
            keep = self._keeps(part, names[-1]) if self._each > 1 and "value" in part else slice(None)
            for name in names:
                parts[name].append(part[name][keep])
        return {name: np.concatenate(found) for name, found in parts.items()}

    def _keeps(self, part: Mapping[str, Ints], reader: str) -> Flags:
        """Return which rows decide. Of what somebody read, these are also the ends of each epoch and reader."""
        value, offset = part["value"], part["offset"]
        keep: Flags = (value % self._each == 0) | np.isin(value, self._lost[0]) | np.isin(offset, self._lost[1])
        if "leader_epoch" in part and len(value):
            groups = part["leader_epoch"] * (int(part[reader].max()) + 1) + part[reader]
            for group in np.unique(groups).tolist():
                mine = np.flatnonzero(groups == group)
                keep[[mine[offset[mine].argmin()], mine[offset[mine].argmax()]]] = True
        return keep


def _rows(found: Mapping[str, Ints], mine: Flags) -> ReadRows:
    at_ns = found["polled_ns"][mine] if "polled_ns" in found else np.full(int(mine.sum()), NEVER)
    value, offset, epoch = (found[name][mine] for name in _ROW)
    return ReadRows(value=value, offset=offset, epoch=epoch, at_ns=at_ns)


def _ints(values: pa.Array) -> Ints:
    found: Ints = pc.fill_null(values.cast(pa.int64()), UNKNOWN).to_numpy(zero_copy_only=False)
    return found
