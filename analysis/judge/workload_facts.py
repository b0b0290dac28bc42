"""What a run's clients did, counted: how transactions ended, fencings, rebalances, resets, and what was acked.

Counted from the clients' own events (`harness.record.clients`) and the sends. A transaction is *torn* when some of
its acked records are lost and others are not, *lost whole* when all of them are; both are asked of committed ones
only, over all their partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from harness.errors import UsageError
from harness.record.clients import ClientEvent, read_client_events
from harness.record.files import ANOMALIES_DIR
from harness.record.manifest import ACKS_SPELLED, read_manifest
from harness.record.tables import SENDS, table_files

_RESETS = {"truncation": "truncations-detected", "out-of-range": "offsets-out-of-range"}
_OF_EVENTS = (
    "transactions-committed",
    "transactions-aborted",
    "transactions-unknown",
    "producers-fenced",
    "producers-replaced",
    "group-rebalances",
    *_RESETS.values(),
    "offsets-reset",
    "offsets-reset-to-earlier",
    "offsets-reset-to-later",
)


def workload_facts(record: Path) -> Counter[str]:
    """The facts, each with its count; those that need what the record lacks are left out.

    Raises `UsageError` when a file of the record is damaged.
    """
    facts: Counter[str] = Counter()
    events = read_client_events(record)
    if events is not None:
        facts.update(dict.fromkeys(_OF_EVENTS, 0))
        for of_client in events.values():
            _count_events(of_client, facts)
    files = table_files(record, "sends")
    if files:
        _count_acked(record, files, facts)
        if (record / ANOMALIES_DIR).is_dir():
            _count_torn(record, files, facts)
    return facts


def _count_events(events: list[ClientEvent], facts: Counter[str]) -> None:
    joined = False
    for one in events:
        match one.event:
            case "transaction":
                facts[f"transactions-{one.outcome}"] += 1
            case "fenced" | "replaced":
                facts[f"producers-{one.event}"] += 1
            case "assigned":
                # The first is the member's own joining.
                facts["group-rebalances"] += joined
                joined = True
            case "truncation" | "out-of-range":
                facts[_RESETS[one.event]] += 1
                facts["offsets-reset"] += 1
                if one.offset is not None and one.to is not None:
                    facts["offsets-reset-to-earlier"] += one.to < one.offset
                    facts["offsets-reset-to-later"] += one.to > one.offset


def _count_acked(record: Path, files: list[Path], facts: Counter[str]) -> None:
    """Acked sends by acks; those of idempotent producers, which are not transactional, apart."""
    setups = read_manifest(record).producers
    idempotent = [int(name) for name, one in setups.items() if one.idempotent and not one.transactional]
    for acks, word in ACKS_SPELLED.items():
        facts[f"acked-with-acks-{word}"] = 0
        for batch in _batches(
            record, files, ["producer"], (pc.field("acks") == acks) & (pc.field("status") == "acked")
        ):
            facts[f"acked-with-acks-{word}"] += batch.num_rows
            facts["acked-idempotent"] += (
                pc.sum(pc.is_in(batch["producer"], pa.array(idempotent, pa.int32()))).as_py() or 0
            )
    facts.setdefault("acked-idempotent", 0)


def _count_torn(record: Path, files: list[Path], facts: Counter[str]) -> None:
    lost = ds.dataset(str(record / ANOMALIES_DIR), format="parquet")
    values = lost.to_table(columns=["value"], filter=pc.field("kind") == "lost")["value"]
    acked: Counter[int] = Counter()
    gone: Counter[int] = Counter()
    of_committed = (pc.field("txn_outcome") == "committed") & (pc.field("status") == "acked")
    for batch in _batches(record, files, ["txn", "value"], of_committed):
        acked.update(batch["txn"].to_pylist())
        if len(values):
            gone.update(batch.filter(pc.is_in(batch["value"], values))["txn"].to_pylist())
    facts["transactions-lost-whole"] = sum(count == acked[txn] for txn, count in gone.items())
    facts["transactions-torn"] = len(gone) - facts["transactions-lost-whole"]


def _batches(record: Path, files: list[Path], columns: list[str], where: pc.Expression) -> Iterator[pa.RecordBatch]:
    try:
        dataset = ds.dataset([str(file) for file in files], format="parquet", schema=SENDS)
        yield from dataset.to_batches(columns=columns, filter=where, batch_readahead=2, fragment_readahead=1)
    except (pa.ArrowException, OSError) as error:
        raise UsageError("the table sends cannot be read", where=str(record), got=str(error)) from None
