"""Makes a run record of any size with a known number of anomalies.

It uses numpy and pyarrow, in bounded memory. A sixth of the events are sends, a third polls (a consumer's and the
final read's), half are rows of three replicas. Times, ids and sizes of files are those of a real run: a broker's
answers for a partition lie in the order in which they came. The last rows of each partition hold the anomalies.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import FinalOffsets, Manifest, ProducerSetup, write_manifest
from ebbtide.record.tables import TABLES

FINAL, CONSUMER = 0, 1
PARTITIONS, PRODUCERS, REPLICAS = 6, 3, 3
PLANTED = 12
"""How many records of each partition get each kind of anomaly."""
ITEMS = {
    "aborted-read": PLANTED * PARTITIONS,
    "damaged": PLANTED * PARTITIONS,
    # Of each two records that changed places, one is out of order.
    "dirty-order": PLANTED // 2 * PARTITIONS,
    "duplicate": PLANTED * PARTITIONS,
    "hw-regression": PLANTED * PARTITIONS,
    "lost": PLANTED * PARTITIONS,
    "poll-back": PLANTED * PARTITIONS,
    # One jump over all records that the consumer did not see.
    "poll-skip": PARTITIONS,
    "replica-divergence": PLANTED * PARTITIONS,
    "unseen": PLANTED * PARTITIONS,
}
"""How many items of each kind a record has, whatever its size; none of another kind."""

_CHUNK = 100_000
_START_NS = 1_700_000_000_000_000_000
_ROWS_OF_A_GROUP = 250_000
_TAIL = 9 * PLANTED
"""The last rows of a partition, which hold the anomalies; all in one chunk."""

Column = np.ndarray[Any, Any] | Any
"""An array of NumPy or of Arrow, which has no types."""


def make_record(record: Path, events: int) -> int:
    """Write a record of about so many events; returns the exact number of its rows."""
    each = max(events // (2 * REPLICAS * PARTITIONS), 200)
    written = 0
    writers = {table: _Writer(record, table) for table in ("sends", "polls", "watermarks", "replicas", "partitions")}
    for partition in range(PARTITIONS):
        firsts = list(range(0, each - _TAIL, _CHUNK))
        for first, end in zip(firsts, [*firsts[1:], each], strict=True):
            written += _chunk(writers, partition, np.arange(first, end, dtype=np.int64), each)
        written += _end(writers, partition, each)
    for writer in writers.values():
        writer.close()
    write_manifest(
        RecordFolder(record),
        Manifest(
            run_id=record.name,
            status="complete",
            final_consumer=FINAL,
            final_offsets={f"t-{n}": FinalOffsets(log_start=0, high_watermark=each) for n in range(PARTITIONS)},
            producers={str(n): ProducerSetup(acks=-1, idempotent=True) for n in range(1, PRODUCERS + 1)},
        ),
    )
    return written


def _chunk(writers: dict[str, _Writer], partition: int, offsets: np.ndarray, each: int) -> int:
    producers = (offsets % PRODUCERS + 1).astype(np.int32)
    sequences = offsets // PRODUCERS
    values = (producers.astype(np.int64) << 40) | (sequences * PARTITIONS + partition)
    times = _START_NS + offsets * 20_000
    in_tail = offsets - (each - _TAIL)
    part = np.where(in_tail >= 0, in_tail // PLANTED, -1)
    lost, unseen, damaged, failed, disorder, diverged, back = (part == kind for kind in range(7))
    where = {"topic": _text("t", len(offsets)), "partition": np.full(len(offsets), partition, np.int32)}

    # Two neighbours of one producer change places, then the next two.
    swapped = np.where(disorder, sequences + np.where(in_tail % PLANTED // PRODUCERS % 2 == 0, 1, -1), sequences)
    rows = writers["sends"].add(
        **where,
        value=values,
        producer=producers,
        sequence=swapped,
        acks=np.full(len(offsets), -1, np.int8),
        status=pa.array(np.where(failed, "failed", "acked"), pa.string()),
        offset=pa.array(offsets, mask=failed),
        error=pa.nulls(len(offsets), pa.string()),
        txn=pa.nulls(len(offsets), pa.int64()),
        txn_outcome=pa.nulls(len(offsets), pa.string()),
        sent_ns=times,
        done_ns=times + 2_000_000,
    )
    for consumer, left_out in ((FINAL, lost), (CONSUMER, lost | unseen)):
        kept = ~left_out
        at, shown = offsets[kept], pa.array(values[kept], mask=damaged[kept])
        before = np.concatenate(([offsets[0] - 1], at[:-1])) if len(at) else at
        before = np.where(back[kept] & (consumer == CONSUMER), at, before)
        rows += writers["polls"].add(
            topic=_text("t", len(at)),
            partition=where["partition"][kept],
            offset=at,
            value=shown,
            consumer=np.full(len(at), consumer, np.int32),
            session=np.full(len(at), 1, np.int32),
            prev_offset=pa.array(before, mask=before < 0),
            leader_epoch=np.zeros(len(at), np.int32),
            isolation=_text("read_uncommitted", len(at)),
            polled_ns=times[kept] + (4_000_000 if consumer == CONSUMER else 10**13),
        )
    for broker in range(1, REPLICAS + 1):
        kept = ~lost
        at = offsets[kept]
        other = np.where(diverged[kept] & (broker == 2), values[kept] + (1 << 50), values[kept])
        rows += writers["replicas"].add(
            broker=np.full(len(at), broker, np.int32),
            topic=_text("t", len(at)),
            partition=where["partition"][kept],
            offset=at,
            leader_epoch=np.zeros(len(at), np.int32),
            value=other,
            producer_id=producers[kept].astype(np.int64),
            producer_epoch=np.zeros(len(at), np.int16),
            sequence=(sequences[kept] % 2**31).astype(np.int32),
            control=np.zeros(len(at), bool),
            timestamp_ms=times[kept] // 10**6,
        )
    return rows + _write_observations(writers, partition, offsets)


def _write_observations(writers: dict[str, _Writer], partition: int, offsets: np.ndarray) -> int:
    """Return one HW observation for each 1,000 records.

    Each is just above the record that was sent last.
    """
    at = offsets[::1000]
    times = _START_NS + at * 20_000
    return _watermarks(writers, partition, at + 1, times, "list_offsets", np.ones(len(at), np.int32))


def _end(writers: dict[str, _Writer], partition: int, each: int) -> int:
    """Add duplicated values, HWs that go back at the end, checkpoints and leaders."""
    again = np.arange(PLANTED, dtype=np.int64)
    at = each + again
    values = ((again % PRODUCERS + 1) << 40) | (again // PRODUCERS * PARTITIONS + partition)
    rows = 0
    for consumer in (FINAL, CONSUMER):
        rows += writers["polls"].add(
            topic=_text("t", PLANTED),
            partition=np.full(PLANTED, partition, np.int32),
            offset=at,
            value=values,
            consumer=np.full(PLANTED, consumer, np.int32),
            session=np.full(PLANTED, 1, np.int32),
            prev_offset=at - 1,
            leader_epoch=np.zeros(PLANTED, np.int32),
            isolation=_text("read_uncommitted", PLANTED),
            polled_ns=np.full(PLANTED, _START_NS + 10**14),
        )
    late = np.full(PLANTED, _START_NS + 10**15) + again * 10**6
    rows += _watermarks(writers, partition, np.zeros(PLANTED, np.int64), late, "list_offsets", np.ones(PLANTED))
    brokers = np.arange(1, REPLICAS + 1)
    hw = np.full(REPLICAS, each, np.int64)
    rows += _watermarks(writers, partition, hw, np.full(REPLICAS, late[-1] + 1), "checkpoint", brokers)
    nodes = pa.array([[1, 2, 3]], pa.list_(pa.int32()))
    none = pa.array([[]], pa.list_(pa.int32()))
    lists = {"replicas": nodes, "isr": nodes} | dict.fromkeys(("elr", "last_known_elr", "adding", "removing"), none)
    numbers = {key: [partition] for key in ("metadata_offset", "metadata_epoch", "leader_epoch", "partition_epoch")}
    return rows + writers["partitions"].add(
        **{name: np.array(number) for name, number in numbers.items()},
        at_ns=np.array([_START_NS]),
        topic=_text("t", 1),
        partition=np.array([partition]),
        leader=np.array([1]),
        leader_recovery_state=np.array([0]),
        **lists,
    )


def _watermarks(
    writers: dict[str, _Writer], partition: int, hw: np.ndarray, at_ns: np.ndarray, source: str, brokers: np.ndarray
) -> int:
    asked = source == "list_offsets"
    return writers["watermarks"].add(
        topic=_text("t", len(hw)),
        partition=np.full(len(hw), partition, np.int32),
        broker=brokers,
        leader_epoch=np.zeros(len(hw), np.int32) if asked else pa.nulls(len(hw), pa.int32()),
        high_watermark=hw,
        log_end_offset=pa.nulls(len(hw), pa.int64()),
        source=_text(source, len(hw)),
        asked_ns=at_ns - 1000 if asked else pa.nulls(len(hw), pa.int64()),
        at_ns=at_ns,
    )


def _text(word: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(word), count)


class _Writer:
    """One table: files of several row groups, as the clients' journals become."""

    def __init__(self, record: Path, table: str) -> None:
        self._folder, self._schema = record / table, TABLES[table]
        self._folder.mkdir(parents=True)
        self._files: list[pq.ParquetWriter] = []
        self._rows = 0

    def add(self, **columns: Column) -> int:
        """Write the columns of some rows; returns how many rows."""
        arrays = [
            (column if isinstance(column, pa.Array) else pa.array(column)).cast(field.type)
            for field, column in ((field, columns[field.name]) for field in self._schema)
        ]
        rows = pa.Table.from_arrays(arrays, schema=self._schema)
        if not self._files or self._rows > 20 * _ROWS_OF_A_GROUP:
            self.close()
            path = self._folder / f"part-{len(self._files)}.parquet"
            self._files.append(pq.ParquetWriter(path, self._schema, compression="zstd"))
            self._rows = 0
        self._files[-1].write_table(rows)
        self._rows += rows.num_rows
        return int(rows.num_rows)

    def close(self) -> None:
        """Close the file that is open."""
        if self._files:
            self._files[-1].close()
