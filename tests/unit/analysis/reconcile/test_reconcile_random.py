"""Random small histories against the rules written a second time in plain Python."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from reconcile_dice import Dice, run
from reconcile_oracle import Item, anomalies, anomalies_of, committed_lost, unnamed_drops
from reconcile_oracle_commits import commits_gone_back, gone_back_of
from reconcile_oracle_groups import groups, groups_of
from records import RecordBuilder, as_record

from analysis.items import reconcile_all
from analysis.judge.rules.registry import ANOMALIES
from analysis.reconcile import crowds
from analysis.reconcile.model import HwRegression, LostRange
from analysis.record import row_batches
from analysis.rows import summing
from ebbtide.record.tables import TABLES

pytestmark = pytest.mark.spark

RUNS = 50

KINDS = {kind.name for kind in ANOMALIES}


@pytest.mark.parametrize(
    ("narrows", "batch_rows"),
    [
        (False, 1 << 18),
        pytest.param(True, 5, marks=pytest.mark.slow),
        (True, 1 << 18),
    ],
    ids=["all rows at once", "sums of a few rows", "sums of many rows"],
)
def test_spark_and_plain_python_agree(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, narrows: bool, batch_rows: int
) -> None:
    if not narrows:
        monkeypatch.setattr(summing, "BLOCKS_MAX", -1)
    monkeypatch.setattr(row_batches, "BATCH_ROWS", batch_rows)
    # Most offsets with two values then have more than are listed: what is left out must not decide anything.
    monkeypatch.setattr(crowds, "LISTED", 1)
    dice = Dice(966 + narrows + batch_rows)
    builders = [run(dice) for _ in range(RUNS // 2)]
    records = [builder.write(tmp_path / f"run-{number}") for number, builder in enumerate(builders)]
    found = reconcile_all(
        spark, [as_record(record, builder.manifest()) for record, builder in zip(records, builders, strict=True)]
    )
    kinds, judged_by, gone_back = set(), set(), set()
    for record, builder, reconciliation in zip(records, builders, found, strict=True):
        stored = sorted((_item(row) for row in pq.read_table(record / "anomalies").to_pylist()), key=repr)
        assert stored == anomalies_of(builder)
        assert groups_of(reconciliation) == groups(stored, builder.tables, builder.manifest())
        judged_by |= {key[3:] for key in groups_of(reconciliation) if key[0] == "duplicate"}
        assert sum(one.count for one in reconciliation.anomalies) == len(stored)
        assert not unnamed_drops(
            pq.read_table(record / "anomalies").to_pylist(), reconciliation.groups_of(HwRegression)
        )
        committed = [one for one in reconciliation.groups_of(LostRange) if one.committed]
        assert sum(one.count for one in committed) == len(committed_lost(builder.tables, builder.manifest()))
        assert gone_back_of(reconciliation) == commits_gone_back(builder.tables, builder.manifest())
        gone_back |= {settled for *_, settled in gone_back_of(reconciliation)}
        kinds |= {item[0] for item in stored}
    assert kinds == KINDS
    assert gone_back == {False, True}
    assert len(judged_by) == 8, "a group of duplicates that no history has"


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
    record = builder.in_order().empty(*TABLES).write(tmp_path / "run")
    (reconciliation,) = reconcile_all(spark, [as_record(record, builder.manifest())])
    rows = pq.read_table(record / "anomalies").to_pylist()
    found = sorted((_item(row) for row in rows), key=repr)
    assert len(found) > 100
    assert not unnamed_drops(rows, reconciliation.groups_of(HwRegression))
    assert found == anomalies(builder.tables, builder.manifest())
