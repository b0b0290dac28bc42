"""A topic that was deleted and made again: its records are not lost, and the new topic is judged by its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from records import RecordBuilder, as_record

from analysis.items import reconcile
from analysis.reconcile.model import Reconciliation
from analysis.rows.deletions import deletions_of
from ebbtide.record.folder import RecordFolder
from ebbtide.record.steps import StepEntry, write_steps

RECREATED = StepEntry(
    index=0,
    step="create-topic",
    parameters={"topic": "t"},
    effect_ns=10**15,
    proof={
        "answer": "NONE",
        "since": 1,
        "asked_ns": 10**15,
        "known_ns": 10**15,
        "unaware": [],
        "record": {"topic_id": "B"},
    },
)
DELETED, UNKNOWN = "t@1", "t@?"


def reconciled(spark: SparkSession, folder: Path, builder: RecordBuilder, *steps: StepEntry) -> Reconciliation:
    record = builder.write(folder / "run")
    write_steps(RecordFolder(record), [*steps, RECREATED])
    return reconcile(spark, as_record(record, builder.manifest()))


def lost_values(found: Reconciliation) -> list[object]:
    return [example["value"] for one in found.anomalies if one.kind == "lost" for example in one.examples]


def recreated() -> RecordBuilder:
    """Three records of the deleted topic, and three of the new one at the same offsets."""
    builder = RecordBuilder().on(DELETED).led_by(1, epoch=0, at_ns=1).acked(0, 1, 2, at=0).not_in_final_read()
    return builder.on("t").led_by(2, epoch=0).acked(3, 4, 5, at=0)


@pytest.mark.spark
def test_records_of_a_deleted_topic_are_neither_lost_nor_replaced_by_those_of_the_new_topic(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = reconciled(spark, tmp_path, recreated().final(3, 4, 5).end(high_watermark=3))
    assert not found.anomalies
    assert not {"lost", "duplicate", "inconsistent-offset", "vanished"} & found.unknown.keys()


@pytest.mark.spark
def test_a_record_of_the_new_topic_is_lost_as_ever(spark: SparkSession, tmp_path: Path) -> None:
    found = reconciled(spark, tmp_path, recreated().final(3, 4).end(high_watermark=2))
    assert lost_values(found) == [5]


@pytest.mark.spark
def test_an_election_before_the_deletion_leaves_the_loss_unknown(spark: SparkSession, tmp_path: Path) -> None:
    builder = RecordBuilder().on(DELETED).led_by(1, epoch=0, at_ns=1).acked(0, 1, at=0).led_by(2, epoch=1)
    builder.not_in_final_read().on("t").led_by(2, epoch=0).acked(3, at=0).final(3).end(high_watermark=1)
    found = reconciled(spark, tmp_path, builder)
    assert lost_values(found) == []
    assert "no earlier election had lost them" in found.unknown["lost"]


@pytest.mark.spark
@pytest.mark.parametrize(("status", "is_known"), [("acked", False), ("failed", True), ("unknown", True)])
def test_an_acked_record_that_may_have_gone_to_either_topic_leaves_the_loss_unknown(
    spark: SparkSession, tmp_path: Path, status: str, is_known: bool
) -> None:
    builder = recreated().final(3, 4, 5).end(high_watermark=3).on(UNKNOWN)
    builder.send(9, at=3 if status == "acked" else None, status=status).not_in_final_read()
    found = reconciled(spark, tmp_path, builder)
    assert lost_values(found) == []
    assert ("lost" not in found.unknown) == is_known
    if not is_known:
        assert "no log says which of the two had them" in found.unknown["lost"]


@pytest.mark.spark
@pytest.mark.parametrize(("first", "regressions"), [(DELETED, 0), ("t", 1)])
def test_the_hw_of_the_new_topic_is_not_compared_with_that_of_the_deleted_one(
    spark: SparkSession, tmp_path: Path, first: str, regressions: int
) -> None:
    builder = recreated().final(3, 4, 5).end(high_watermark=3)
    found = reconciled(spark, tmp_path, builder.on(first).served(3).on("t").served(1).served(3))
    assert sum(one.count for one in found.anomalies if one.kind == "hw-regression") == regressions


@pytest.mark.parametrize(("fired_ns", "leo_after", "is_sure"), [(5, 8, False), (5, 9, True), (10**16, 8, True)])
def test_what_the_leader_of_the_deleted_topic_may_have_lost_before_surely_stood_at_no_time(
    tmp_path: Path, fired_ns: int, leo_after: int, is_sure: bool
) -> None:
    record = recreated().write(tmp_path / "run")
    lost = {"t-0": {"leo_before": 9, "leo_after": leo_after}}
    loss = StepEntry(index=0, step="power-loss", nodes=(1,), fired_ns=fired_ns, proof={"logs": lost})
    write_steps(RecordFolder(record), [loss, RECREATED])
    deleted, unknown = deletions_of(as_record(record))
    assert (deleted.topic, deleted.began_ns) == (DELETED, 1 if is_sure else None)
    assert (unknown.topic, unknown.began_ns) == (UNKNOWN, None)
