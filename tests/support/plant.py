"""Plants into a copy of a real record what no run shows by itself.

The copy looks as if the run had left it so.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.evidence.report import EVIDENCE
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest, write_manifest
from ebbtide.record.tables import TABLES

Row = dict[str, Any]


def plant_divergence(record: Path) -> None:
    """Broker 3 has other values than the others at 439 offsets."""

    def spoil_values(rows: list[Row]) -> list[Row]:
        values = [row for row in rows if row["value"] is not None]
        for row in values[10 : 10 + 439]:
            row["value"] += 1_000_000_000
        return rows

    _rewrite(record / "replicas" / "broker-3.parquet", "replicas", spoil_values)


def plant_lost_tail(record: Path) -> None:
    """Remove the last 100 records from the final read and from every log.

    Nothing happened to a disk in this run.
    """
    manifest = read_manifest(RecordFolder(record))
    (name, ends), *_ = manifest.final_offsets.items()
    topic, partition = TopicPartition.parse(name)
    end = ends.high_watermark - 100

    def cut(rows: list[Row]) -> list[Row]:
        of_it = (topic, partition)
        return [row for row in rows if (row["topic"], row["partition"]) != of_it or row["offset"] < end]

    _rewrite(record / "polls" / f"consumer-{manifest.final_consumer}.parquet", "polls", cut)
    for path in sorted((record / "replicas").glob("*.parquet")):
        _rewrite(path, "replicas", cut)
    evidence = json.loads((record / EVIDENCE).read_text())
    for log in evidence["replicas"]["logs"]:
        rows = pq.read_table(record / "replicas" / f"broker-{log['broker']}.parquet").to_pylist()
        log["records"] = sum((row["topic"], row["partition"]) == (log["topic"], log["partition"]) for row in rows)
    (record / EVIDENCE).write_text(json.dumps(evidence, indent=2))
    ended = msgspec.structs.replace(ends, high_watermark=end)
    write_manifest(
        RecordFolder(record), msgspec.structs.replace(manifest, final_offsets={**manifest.final_offsets, name: ended})
    )


def plant_duplicate(record: Path) -> None:
    """Put the value of the first record at the second offset too.

    This holds for every consumer and every log.
    """

    def double_values(rows: list[Row]) -> list[Row]:
        first = {(row["topic"], row["partition"]): row["value"] for row in rows if row["offset"] == 0}
        for row in rows:
            if row["offset"] == 1:
                row["value"] = first[row["topic"], row["partition"]]
        return rows

    for table in ("polls", "replicas"):
        for path in sorted((record / table).glob("*.parquet")):
            _rewrite(path, table, double_values)


def plant_aborted_read(record: Path) -> None:
    """A transaction that a read_committed consumer saw is said to have been aborted."""

    def abort_transaction(rows: list[Row]) -> list[Row]:
        txn = next(row["txn"] for row in rows if row["txn_outcome"] == "committed")
        for row in rows:
            if row["txn"] == txn:
                row["txn_outcome"] = "aborted"
        return rows

    _rewrite(next(iter(sorted((record / "sends").glob("*.parquet")))), "sends", abort_transaction)


def _rewrite(path: Path, table: str, change: Callable[[list[Row]], list[Row]]) -> None:
    rows = change(pq.read_table(path, schema=TABLES[table]).to_pylist())
    pq.write_table(pa.Table.from_pylist(rows, schema=TABLES[table]), path, compression="zstd")
