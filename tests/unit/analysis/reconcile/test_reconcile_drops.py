"""What the judge gets of a HW that fell: each drop once, and nothing that is no drop."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.parquet as pq
import pytest
from anomaly_kinds import hw_regression
from reconcile_cases import Found
from reconcile_together import record_of
from records import RecordBuilder

from analysis.reconcile.model import HwRegression, Reconciliation
from analysis.record.record import Record

pytestmark = pytest.mark.spark

HIGHEST_NS = 1040


def falling_hw() -> RecordBuilder:
    """A HW falls, and five observations show it."""
    builder = RecordBuilder().served(80).served(100, broker=1, at_ns=HIGHEST_NS)
    builder.served(60, epoch=2, broker=2).served(50, epoch=2, broker=3, at_ns=5000, asked_ns=4990)
    builder.served(70, epoch=2, asked_ns=5010, at_ns=5020).served(75, epoch=3, asked_ns=5030, at_ns=5040)
    return builder.served(65, epoch=4, broker=2, asked_ns=5050, at_ns=5060)


def test_a_drop_of_the_hw_is_one_regression_however_many_observations_show_it(
    found: Mapping[str, Reconciliation],
) -> None:
    assert sum(one.count for one in found["falling HW"].anomalies) == 5
    assert found["falling HW"].groups_of(HwRegression) == [
        HwRegression(
            kind="hw-regression",
            topic="t",
            partition=0,
            count=3,
            from_=100,
            to=50,
            leader_epoch=2,
            broker=3,
            earlier_at_ns=HIGHEST_NS,
            at_ns=5000,
            earlier_leader_epoch=0,
        ),
        HwRegression(
            kind="hw-regression",
            topic="t",
            partition=0,
            from_=75,
            to=65,
            leader_epoch=4,
            broker=2,
            earlier_at_ns=5040,
            at_ns=5060,
            earlier_leader_epoch=3,
        ),
    ]


DROPS: dict[str, tuple[list[tuple[int, int, int, int]], list[tuple[int, int, int]]]] = {
    # (leader epoch, HW, asked, answered) of each observation; (from, to, leader epoch) of each drop
    "what was asked too early to be below tells of no drop": (
        [(1, 100, 0, 100), (2, 0, 90, 150), (3, 0, 200, 210)],
        [(100, 0, 3)],
    ),
    "and what stays low after it is none": (
        [(1, 100, 0, 100), (2, 0, 90, 150), (3, 0, 200, 210), (4, 0, 220, 230), (4, 50, 240, 250)],
        [(100, 0, 3)],
    ),
    "under one epoch after the other": (
        [(0, 100, 0, 1), (1, 90, 2, 3), (2, 80, 4, 5), (3, 85, 6, 7), (3, 95, 8, 9)],
        [(100, 90, 1), (90, 80, 2)],
    ),
    "further down than the one before": (
        [(0, 100, 0, 1), (1, 75, 2, 9), (2, 50, 1, 9), (3, 50, 10, 11)],
        [(100, 75, 1), (100, 50, 3)],
    ),
    "after the HW was as high again": (
        [(0, 100, 0, 1), (1, 50, 2, 3), (2, 100, 4, 8), (3, 40, 0, 9), (4, 60, 10, 11)],
        [(100, 50, 1), (100, 60, 4)],
    ),
}


def drops() -> RecordBuilder:
    builder = RecordBuilder()
    for topic, (observed, _) in DROPS.items():
        for epoch, high_watermark, asked_ns, at_ns in observed:
            builder.on(topic).served(high_watermark, epoch=epoch, asked_ns=asked_ns, at_ns=at_ns)
    return builder


def test_every_observation_that_is_too_low_lies_in_a_drop_that_is_named(
    found: Mapping[str, Reconciliation], made: Mapping[str, Record]
) -> None:
    dropped = found["drops"]
    named = {
        topic: [(one.from_, one.to, one.leader_epoch) for one in dropped.groups_of(HwRegression) if one.topic == topic]
        for topic in DROPS
    }
    assert named == {topic: drops for topic, (_, drops) in DROPS.items()}
    assert hw_regression.told(Found(pq.read_table(made["drops"].folder / "anomalies").to_pylist(), dropped)) == []


RECORDS = {"falling HW": record_of(falling_hw), "drops": record_of(drops)}
