"""Makes the report of a run of two minutes with 200,000 records in six partitions, in which the ISR never rests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.record.record import Record
from analysis.report.html import write_report
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import Manifest, TopicSetup, Topology, write_manifest
from ebbtide.record.steps import StepEntry, write_steps
from ebbtide.record.tables import TABLES
from ebbtide.record.verdict import Counts, Verdict

RECORDS = 200_000
PARTITIONS = 6
_BROKERS = [1, 2, 3]
_LASTS_S = 120
_CHANGES = 40
"""How often the ISR of each partition changes; every fourth change is an election."""
_START_NS = 1_700_000_000_000_000_000


def write_large_page(record: Path, records: int = RECORDS) -> Path:
    """Write the record and its report; returns the path of the page."""
    record.mkdir(parents=True)
    manifest = Manifest(
        run_id=record.name,
        scenario="large",
        kafka="4.3.1",
        topology=Topology(controllers=(100,), brokers=tuple(_BROKERS)),
        topics={"t": TopicSetup(partitions=PARTITIONS, replication_factor=3, min_isr=2)},
        start_ns=_ns(0),
        end_ns=_ns(_LASTS_S),
        status="complete",
    )
    steps = [
        StepEntry(
            index=at,
            step="pause",
            nodes=(3,),
            fired_ns=_ns(3 + 2.8 * at),
            effect_ns=_ns(3.1 + 2.8 * at),
            healed_ns=_ns(4 + 2.8 * at),
            proof={"probe": "ok"},
        )
        for at in range(_CHANGES)
    ]
    write_manifest(RecordFolder(record), manifest)
    write_steps(RecordFolder(record), steps)
    _write(record, "partitions", _states())
    _write(record, "brokers", _registrations())
    _write_clients(record, records)
    verdict = Verdict(
        run_id=manifest.run_id, outcome="as-predicted", counts=Counts(sends=records, acked=records, polls=records)
    )
    return write_report(Record(RecordFolder(record), manifest), verdict)


def _ns(at_s: float) -> int:
    return _START_NS + round(at_s * 1e9)


def _states() -> list[dict[str, Any]]:
    """Return the states: the ISR shrinks and grows in turn, and now and then another broker leads."""
    rows = []
    leader, epoch = 1, 0
    for at in range(_CHANGES):
        if at % 4 == 3:
            leader, epoch = 3 - leader, epoch + 1
        rows += [
            {
                "metadata_offset": 10 + at * PARTITIONS + partition,
                "metadata_epoch": 1,
                "at_ns": _ns(2 + 2.8 * at),
                "topic": "t",
                "partition": partition,
                "leader": leader,
                "leader_epoch": epoch,
                "partition_epoch": at,
                "replicas": _BROKERS,
                "isr": _BROKERS if at % 2 == 0 else [1, 2],
                "leader_recovery_state": 0,
                **{name: [] for name in ("elr", "last_known_elr", "adding", "removing")},
            }
            for partition in range(PARTITIONS)
        ]
    return rows


def _registrations() -> list[dict[str, Any]]:
    return [
        {
            "metadata_offset": broker,
            "at_ns": _ns(0),
            "broker": broker,
            "broker_epoch": broker,
            "incarnation": f"incarnation-{broker}",
            "event": "registered",
        }
        for broker in _BROKERS
    ]


def _write_clients(record: Path, records: int) -> None:
    """Every record is acked 5 ms after it was sent and read 5 ms later; the HW is asked every 100 ms."""
    sent = [_ns(2) + value * (_LASTS_S - 4) * 1_000_000_000 // records for value in range(records)]
    common: dict[str, Sequence[Any]] = {
        "topic": ["t"] * records,
        "partition": [value % PARTITIONS for value in range(records)],
        "offset": [value // PARTITIONS for value in range(records)],
        "value": list(range(records)),
    }
    sends: dict[str, Sequence[Any]] = {
        **common,
        "producer": [1] * records,
        "sequence": list(range(records)),
        "acks": [-1] * records,
        "status": ["acked"] * records,
        "sent_ns": sent,
        "done_ns": [at + 5_000_000 for at in sent],
    }
    polls: dict[str, Sequence[Any]] = {
        **common,
        "consumer": [1] * records,
        "session": [1] * records,
        "isolation": ["read_uncommitted"] * records,
        "polled_ns": [at + 10_000_000 for at in sent],
    }
    asked = [(number, at) for at in range(20, 10 * _LASTS_S - 20) for number in range(PARTITIONS)]
    watermarks: dict[str, Sequence[Any]] = {
        "topic": ["t"] * len(asked),
        "partition": [number for number, _ in asked],
        "broker": [1] * len(asked),
        "high_watermark": [at * records // PARTITIONS // (10 * _LASTS_S) for _, at in asked],
        "source": ["list_offsets"] * len(asked),
        "at_ns": [_ns(at / 10) for _, at in asked],
    }
    _write_columns(record, "sends", sends)
    _write_columns(record, "polls", polls)
    _write_columns(record, "watermarks", watermarks)


def _write(record: Path, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(list(rows), schema=TABLES[table]), record / f"{table}.parquet")


def _write_columns(record: Path, table: str, columns: Mapping[str, Sequence[Any]]) -> None:
    schema, rows = TABLES[table], len(columns["topic"])
    arrays = [pa.array(columns.get(field.name, [None] * rows), field.type) for field in schema]
    (record / table).mkdir()
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), record / table / "part-0.parquet")
