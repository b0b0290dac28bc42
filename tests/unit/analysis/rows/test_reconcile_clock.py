"""Whether the harness's clock was set back, by the order in which a broker's answers were written down."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from reconcile_rows import sum_up
from records import RecordBuilder, as_record

from analysis.items import reconcile
from analysis.reconcile.model import HwRegression

S = 1_000_000_000


def rising_watermarks(builder: RecordBuilder, *at_s: float, broker: int = 1, epoch: int | None = 0) -> RecordBuilder:
    """A HW that only rises, as one broker serves it, with the times that the clock had."""
    for number, at in enumerate(at_s):
        at_ns = int(at * S)
        builder.served(100 + 10 * number, broker=broker, epoch=epoch, asked_ns=at_ns - 1, at_ns=at_ns)
    return builder


def clock_went_back(builder: RecordBuilder, folder: Path) -> bool:
    return sum_up(as_record(builder.write(folder / "run"), builder.manifest())).facts.clock_went_back


def test_answers_in_the_order_of_their_times_tell_of_no_step(tmp_path: Path) -> None:
    builder = rising_watermarks(rising_watermarks(RecordBuilder(), 10, 10.1, 10.1, 12), 9, 11, broker=2)
    assert not clock_went_back(builder.checkpoint(1, 5, at_ns=3), tmp_path)


@pytest.mark.parametrize(
    "build",
    [
        lambda b: rising_watermarks(b, 10, 10.1, 8.2, 8.3),
        lambda b: rising_watermarks(rising_watermarks(b, 10, 10.1), 8.2, 8.3, epoch=1),
        lambda b: b.served(100, asked_ns=10 * S, at_ns=8 * S),
        lambda b: rising_watermarks(rising_watermarks(rising_watermarks(b, 10).on("u"), 10).on("t"), 8),
    ],
    ids=["between two answers", "at an election", "during one answer", "partitions in turn"],
)
def test_a_broker_that_answered_before_it_did_tells_that_the_clock_was_set_back(
    tmp_path: Path, build: Callable[[RecordBuilder], RecordBuilder]
) -> None:
    assert clock_went_back(build(RecordBuilder()), tmp_path)


def test_brokers_and_partitions_are_in_no_order_among_themselves(tmp_path: Path) -> None:
    builder = rising_watermarks(rising_watermarks(RecordBuilder(), 10, 10.1), 8, 8.1, broker=2)
    assert not clock_went_back(rising_watermarks(builder.on("u"), 7, 7.1), tmp_path)


def test_answers_that_are_not_judged_do_not_count(tmp_path: Path) -> None:
    builder = (
        rising_watermarks(RecordBuilder(), 10, 9, epoch=None)
        .served(1, source="fetch", at_ns=20)
        .served(2, source="fetch")
    )
    assert not clock_went_back(builder.served(1, source="fetch", at_ns=20), tmp_path)


def test_a_record_without_answers_tells_nothing(tmp_path: Path) -> None:
    assert not clock_went_back(RecordBuilder(), tmp_path)
    assert not clock_went_back(RecordBuilder().empty("watermarks"), tmp_path)


@pytest.mark.spark
def test_a_clock_that_was_set_back_makes_no_hw_go_back(spark: SparkSession, tmp_path: Path) -> None:
    builder = rising_watermarks(RecordBuilder(), 10, 10.1, 8.2, 8.3)
    found = reconcile(spark, as_record(builder.write(tmp_path / "run"), builder.manifest()))
    assert (found.anomalies, found.groups_of(HwRegression)) == ([], [])
    assert "set back" in found.unknown["hw-regression"]
