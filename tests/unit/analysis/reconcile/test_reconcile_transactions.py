"""What the judge gets of a hanging transaction, and where nothing is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest
from anomaly_kinds.hanging_transaction import KIND, ended
from pyspark.sql import SparkSession
from records import RecordBuilder, as_record

from analysis.items import reconcile_all
from analysis.reconcile.model import HangingTransaction

pytestmark = pytest.mark.spark


def test_the_judge_gets_the_transaction_that_the_record_at_the_lso_belongs_to_or_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    hanging = ended().acked(1, at=0).send(2, status="unknown", txn=7, txn_outcome="aborted", producer=3)
    hanging.final(1, 2, at=0).end(high_watermark=2, last_stable=1)
    # What is not known of coordinators does not matter where every LSO is the HW.
    at_the_hw = RecordBuilder().producer(1, transactional=True).acked(1, 2, at=0).final(1, 2, at=0)
    at_the_hw.end(high_watermark=2, last_stable=2).transactions("b:9092", one="Ongoing")
    without = RecordBuilder().acked(1, at=0).final(1, at=0)
    records = [
        as_record(one.write(tmp_path / str(number)), one.manifest())
        for number, one in enumerate((hanging, at_the_hw, without))
    ]
    judged = reconcile_all(spark, records)
    assert not any(KIND in one.unknown for one in judged)
    (first,) = judged[0].groups_of(HangingTransaction)
    assert (first.partition, first.count) == (0, 1)
    assert {
        name: first.first[name]
        for name in ("offset", "last_stable", "high_watermark", "txn", "txn_outcome", "status", "producer")
    } == {
        "offset": 1,
        "last_stable": 1,
        "high_watermark": 2,
        "txn": 7,
        "txn_outcome": "aborted",
        "status": "unknown",
        "producer": 3,
    }
