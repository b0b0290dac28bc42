"""The rule of hanging transactions: cases for and against, and when it cannot tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from reconcile_cases import Case, Expected, items_of, reconcile_cases
from records import RecordBuilder, as_record

from analysis.items import reconcile
from analysis.reconcile.model import HangingTransaction, Reconciliation

pytestmark = pytest.mark.spark

KIND = "hanging-transaction"

CASES: dict[str, tuple[Case, Expected]] = {
    "an open transaction holds the LSO below the HW": (
        lambda b: (
            b.acked(1, at=0)
            .send(2, status="unknown", txn=7, txn_outcome="aborted", producer=3)
            .final(1, 2, at=0)
            .end(high_watermark=2, last_stable=1)
        ),
        {KIND: [(1, 2)]},
    ),
    "an LSO at the HW is that of a log without an open transaction": (
        lambda b: b.acked(1, at=0).final(1, at=0).end(high_watermark=1, last_stable=1),
        {},
    ),
    "a log in which markers stand last has its LSO above every record": (
        lambda b: b.acked(1, at=0, txn=7, txn_outcome="committed").final(1, at=0).end(high_watermark=2, last_stable=2),
        {},
    ),
    "an open transaction whose first record is none of the run hangs all the same": (
        lambda b: b.acked(1, at=0).final(1, None, at=0).end(high_watermark=2, last_stable=1),
        {KIND: [(1, None)], "damaged": [(1, None)]},
    ),
    "a record that another consumer read at the LSO does not name the transaction": (
        lambda b: b.acked(1, 2, at=0).read(9, at=1).final(1, 2, at=0).end(high_watermark=2, last_stable=1),
        {KIND: [(1, 2)], "vanished": [(1, 9)], "inconsistent-offset": [(1, None)]},
    ),
    "a torn transaction, of which one record was passed over, is no hanging one": (
        lambda b: (
            b.acked(1, 2, 3, at=0, txn=7, txn_outcome="committed")
            .final(1, 2, 3, at=0, leader_epoch=0)
            .read(1, at=0, isolation="read_committed", leader_epoch=0)
            .read(3, at=2, prev_offset=0, isolation="read_committed", leader_epoch=0)
        ),
        {"poll-skip": [(2, 3)], "unseen": [(1, None)]},
    ),
    "a torn transaction, of which one record is in no log, is no hanging one": (
        lambda b: b.acked(1, 2, at=0, txn=7, txn_outcome="committed").final(1, at=0),
        {"lost": [(1, 2)]},
    ),
    "each partition has its own": (
        lambda b: (
            b.acked(1, at=0)
            .final(1, at=0)
            .end(high_watermark=1, last_stable=1)
            .acked(2, at=0, partition=1)
            .final(2, at=0, partition=1)
            .end(partition=1, high_watermark=1, last_stable=0)
        ),
        {KIND: [(0, 2)]},
    ),
}


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Reconciliation:
    builder = RecordBuilder().producer(1, transactional=True).transactions(one="CompleteAbort", other="Empty")
    return reconcile_cases(spark, tmp_path_factory.mktemp("transactions"), builder, CASES)


@pytest.mark.parametrize("number", range(len(CASES)), ids=list(CASES))
def test_a_case_has_exactly_these_items(found: Reconciliation, number: int) -> None:
    items = items_of(found, number)
    expected = list(CASES.values())[number][1]
    assert items.get(KIND) == expected.get(KIND)
    assert {kind: items.get(kind) for kind in expected} == expected


def test_the_judge_gets_the_transaction_that_the_record_at_the_lso_belongs_to(found: Reconciliation) -> None:
    first = next(one for one in found.groups_of(HangingTransaction) if one.topic == "case-0")
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
    assert KIND not in found.unknown


def _base() -> RecordBuilder:
    builder = RecordBuilder().producer(1, transactional=True)
    return builder.acked(1, 2, at=0).final(1, 2, at=0).end(high_watermark=2, last_stable=1)


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda: _base(), "nobody asked for the last stable offsets"),
        (lambda: _base().transactions("b:9092", one="Empty"), "b:9092 did not say which transactions"),
        (
            lambda: _base().transactions(one="Ongoing", other="Empty", waited_s=35.2),
            "the coordinators had not ended every transaction after 35 s: one is Ongoing",
        ),
        (lambda: _base().transactions(one="PrepareAbort"), "the coordinators had not ended every transaction"),
        (
            lambda: _base().transactions(one=None),
            "the coordinators had not ended every transaction after 0 s: one is not",
        ),
        (
            lambda: _base().transactions(one="CompleteAbort", still=False),
            "the last stable offset of t-0 had not stood still for 5 s",
        ),
    ],
)
def test_a_transaction_that_may_still_end_is_unknown_and_never_an_item(
    spark: SparkSession, tmp_path: Path, build: Callable[[], RecordBuilder], why: str
) -> None:
    builder = build()
    found = reconcile(spark, as_record(builder.write(tmp_path / "run"), builder.manifest()))
    assert found.unknown[KIND].startswith(why)
    assert not [one for one in found.anomalies if one.kind == KIND]


def test_what_is_not_known_of_coordinators_does_not_matter_where_every_lso_is_the_hw(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = _base().end(high_watermark=2, last_stable=2).transactions("b:9092", one="Ongoing")
    found = reconcile(spark, as_record(builder.write(tmp_path / "run"), builder.manifest()))
    assert KIND not in found.unknown


def test_a_record_without_transactions_has_nothing_to_judge(spark: SparkSession, tmp_path: Path) -> None:
    builder = RecordBuilder().acked(1, at=0).final(1, at=0)
    found = reconcile(spark, as_record(builder.write(tmp_path / "run"), builder.manifest()))
    assert KIND not in found.unknown
