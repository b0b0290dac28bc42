"""Judges a small made record, so that the next record does not wait for Java's first use of its classes and plans.

A first session does so, too, before it archives its classes (`analysis.spark.session`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.judging.many_records import judge
from analysis.spark.session import Jvm
from ebbtide.journal.payload import value_at
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import FinalOffsets, Manifest, ProducerSetup, TopicSetup, Topology, write_manifest
from ebbtide.record.tables import TABLES
from ebbtide.scratch import JUDGING, scratch_folder
from ebbtide.signals import is_interrupt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ebbtide.record.verdict import Verdict

_BROKERS = (1, 2, 3)
_FINAL, _CONSUMER, _PRODUCER = 0, 1, 1
_SENT, _KEPT = 20, 15
"""Records that the producer sent, and those that every log still has in the end."""
_STEP_NS = 1_000_000
_START_NS = 1_700_000_000_000_000_000
_OF_TOPIC: dict[str, object] = {"topic": "t", "partition": 0}


def warm_up(spark: SparkSession, stage: Callable[[str], None] = lambda _: None) -> Verdict:
    """Make a record in a temporary folder, judge it, and return its verdict; `stage` is called with each stage.

    One partition loses the last records that were acknowledged, so that the common plans run.
    """
    with scratch_folder(JUDGING) as folder:
        verdict = judge(_made_record(folder), spark, stage)
    if Jvm.running is not None:
        Jvm.running.has_common_classes = True
    return verdict


def load_common_classes_if_first(spark: SparkSession) -> None:
    """Let a first session load the classes of the common plans before it ends, whatever it has judged.

    Does nothing in any other session. If the made record cannot be judged, no classes are archived.
    """
    if Jvm.running is None or not Jvm.running.lacks_common_classes:
        return
    try:
        warm_up(spark)
    except Exception as error:
        if is_interrupt(error):
            raise


def _made_record(folder: Path) -> Path:
    record = RecordFolder(folder / "warm-up")
    record.path.mkdir()
    for table, rows in _rows().items():
        pq.write_table(pa.Table.from_pylist([*rows], schema=TABLES[table]), record / f"{table}.parquet")
    write_manifest(
        record,
        Manifest(
            run_id=record.path.name,
            status="complete",
            topology=Topology(controllers=(100,), brokers=_BROKERS),
            topics={"t": TopicSetup(partitions=1, replication_factor=len(_BROKERS), min_isr=2)},
            producers={str(_PRODUCER): ProducerSetup(acks=-1, idempotent=True)},
            final_consumer=_FINAL,
            final_offsets={"t-0": FinalOffsets(log_start=0, high_watermark=_KEPT)},
        ),
    )
    return record.path


def _rows() -> dict[str, Iterable[dict[str, object]]]:
    """Return the rows of each table."""
    values = [value_at(_PRODUCER, number) for number in range(_SENT)]
    lists = {"replicas": _BROKERS, "isr": _BROKERS, "elr": (), "last_known_elr": (), "adding": (), "removing": ()}
    return {
        "sends": (
            _OF_TOPIC
            | {"value": values[offset], "producer": _PRODUCER, "sequence": offset, "acks": -1, "status": "acked"}
            | {"offset": offset, "sent_ns": _at_ns(offset), "done_ns": _at_ns(offset) + 1}
            for offset in range(_SENT)
        ),
        "polls": (
            _OF_TOPIC
            | {"offset": offset, "value": values[offset], "consumer": consumer, "session": 1, "leader_epoch": 0}
            | {"prev_offset": offset - 1 if offset else None, "isolation": "read_uncommitted"}
            | {"polled_ns": _at_ns(_SENT + offset)}
            for consumer, count in ((_FINAL, _KEPT), (_CONSUMER, _SENT))
            for offset in range(count)
        ),
        "watermarks": (
            _OF_TOPIC
            | {"broker": 1 + epoch, "leader_epoch": epoch, "high_watermark": hw, "source": "list_offsets"}
            | {"asked_ns": _at_ns(at), "at_ns": _at_ns(at) + 1}
            for epoch, at, hw in ((0, _SENT - 1, _SENT), (1, 2 * _SENT, _KEPT))
        ),
        "replicas": (
            _OF_TOPIC
            | {"broker": broker, "offset": offset, "leader_epoch": 0, "value": values[offset], "control": False}
            | {"producer_id": 1, "producer_epoch": 0, "sequence": offset, "timestamp_ms": _at_ns(offset) // 10**6}
            for broker in _BROKERS
            for offset in range(_KEPT)
        ),
        "partitions": (
            _OF_TOPIC
            | lists
            | {"metadata_offset": epoch, "metadata_epoch": 1, "at_ns": _at_ns(epoch * _SENT), "leader": 1 + epoch}
            | {"leader_epoch": epoch, "partition_epoch": epoch, "leader_recovery_state": 0}
            for epoch in range(2)
        ),
    }


def _at_ns(step: int) -> int:
    return _START_NS + step * _STEP_NS
