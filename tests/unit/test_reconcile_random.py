"""Random small records against the rules written a second time in plain Python."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from reconcile_oracle import Item, anomalies, committed_lost
from records import FINAL_CONSUMER, RecordBuilder

from analysis.reconcile import reconcile
from harness.record.tables import TABLES

pytestmark = pytest.mark.spark

TOPICS = 30
"""Small records that share one Spark job, each a topic with values of its own."""

_OFFSETS = st.integers(0, 6)
_VALUES = st.integers(1, 6)
_TIMES = st.integers(1, 40)
_EPOCHS = st.integers(0, 4)


def _fill(draw: st.DrawFn, builder: RecordBuilder, *, transactions: bool) -> None:
    """A few rows of everything, over so few offsets, values and times that they meet."""
    for value in draw(st.sets(_VALUES)):
        outcome = draw(st.sampled_from([None, None, "committed", "aborted", "unknown"])) if transactions else None
        builder.send(
            value,
            at=draw(st.none() | _OFFSETS),
            status=draw(st.sampled_from(["acked", "acked", "failed", "unknown"])),
            acks=draw(st.sampled_from([-1, 0, 1])),
            txn=None if outcome is None else 1,
            txn_outcome=outcome,
            partition=draw(st.integers(0, 1)),
            sent_ns=draw(_TIMES),
            done_ns=draw(st.none() | _TIMES),
        )
    for consumer in (1, 2, FINAL_CONSUMER):
        for _ in range(draw(st.integers(0, 5))):
            builder.read(
                draw(st.none() | _VALUES),
                at=draw(_OFFSETS),
                consumer=consumer,
                polled_ns=draw(_TIMES) + (40 if consumer == FINAL_CONSUMER else 0),
                leader_epoch=draw(_EPOCHS),
                partition=draw(st.integers(0, 1)),
            )
    for _ in range(draw(st.integers(0, 8))):
        asked = draw(st.none() | _TIMES)
        builder.served(
            draw(_OFFSETS),
            epoch=draw(st.none() | st.integers(0, 9)),
            source=draw(st.sampled_from(["list_offsets", "list_offsets", "fetch", "checkpoint"])),
            broker=draw(st.integers(1, 3)),
            asked_ns=asked,
            at_ns=(asked or 0) + draw(st.integers(0, 10)),
        )
    for broker in draw(st.sets(st.integers(1, 3))):
        builder.checkpoint(broker, draw(_OFFSETS))
        for offset in draw(st.sets(_OFFSETS, max_size=4)):
            builder.replica(broker, draw(st.none() | _VALUES), at=offset, epoch=draw(_EPOCHS))
    for epoch in sorted(draw(st.sets(_EPOCHS, max_size=3))):
        builder.led_by(draw(st.sampled_from([-1, 1, 2, 3])), epoch=epoch, at_ns=draw(_TIMES))
    builder.end(log_start=draw(st.integers(0, 2)), high_watermark=draw(st.integers(2, 7)))
    if draw(st.integers(0, 5)) == 0:
        builder.not_in_final_read()


@st.composite
def records(draw: st.DrawFn) -> RecordBuilder:
    builder = RecordBuilder(
        status=draw(st.sampled_from(["complete", "complete", "interrupted"])),
        final_consumer=draw(st.sampled_from([FINAL_CONSUMER, FINAL_CONSUMER, FINAL_CONSUMER, None])),
    )
    transactions = draw(st.booleans())
    builder.producer(1, transactional=transactions).empty(*TABLES)
    for topic in range(TOPICS):
        _fill(draw, builder.on(f"topic-{topic}", base=topic * 100), transactions=transactions)
    if transactions:
        for row in builder.tables["polls"]:
            row["isolation"] = "read_committed"
    return builder


@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(builder=records())
def test_spark_and_plain_python_agree(spark: SparkSession, builder: RecordBuilder) -> None:
    manifest = builder.manifest()
    with tempfile.TemporaryDirectory() as folder:
        record = builder.write(Path(folder, "run"))
        reconciliation = reconcile(spark, record, manifest)
        stored = pq.read_table(record / "anomalies").to_pylist()
    found = sorted((_item(row) for row in stored), key=repr)
    assert found == anomalies(builder.tables, manifest)
    assert sum(one.count for one in reconciliation.anomalies) == len(found)
    committed = [one for one in reconciliation.lost if one.committed]
    assert sum(one.count for one in committed) == len(committed_lost(builder.tables, manifest))


def _item(row: dict[str, Any]) -> Item:
    return row["kind"], row["topic"], row["partition"], row["offset"], row["value"]


def test_hw_regressions_agree_over_many_epochs_and_overlapping_questions(spark: SparkSession, tmp_path: Path) -> None:
    dice = random.Random(966)
    builder = RecordBuilder()
    for topic in range(20):
        builder.on(f"topic-{topic}")
        epochs = dice.choice([1, 2, 3, 6, 13, 40])
        for _ in range(dice.randrange(60)):
            asked = dice.randrange(100)
            builder.served(
                asked + dice.randrange(40),
                epoch=min(epochs, asked * epochs // 100 + dice.randrange(3)) * 5,
                asked_ns=asked,
                at_ns=asked + dice.randrange(20),
            )
    record = builder.empty(*TABLES).write(tmp_path / "run")
    reconcile(spark, record, builder.manifest())
    found = sorted((_item(row) for row in pq.read_table(record / "anomalies").to_pylist()), key=repr)
    assert len(found) > 100
    assert found == anomalies(builder.tables, builder.manifest())
