"""What the judge gets of a hanging transaction, and where nothing is unknown."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from anomaly_kinds.hanging_transaction import KIND, ended
from reconcile_together import record_of
from records import RecordBuilder

from analysis.reconcile.model import HangingTransaction, Reconciliation

pytestmark = pytest.mark.spark


def hanging() -> RecordBuilder:
    builder = ended().acked(1, at=0).send(2, status="unknown", txn=7, txn_outcome="aborted", producer=3)
    return builder.final(1, 2, at=0).end(high_watermark=2, last_stable=1)


def at_the_hw() -> RecordBuilder:
    """What is not known of coordinators does not matter where every LSO is the HW."""
    builder = RecordBuilder().producer(1, transactional=True).acked(1, 2, at=0).final(1, 2, at=0)
    return builder.end(high_watermark=2, last_stable=2).transactions("b:9092", one="Ongoing")


RECORDS = {
    "hanging": record_of(hanging),
    "at the HW": record_of(at_the_hw),
    "without": record_of(lambda: RecordBuilder().acked(1, at=0).final(1, at=0)),
}


def test_the_judge_gets_the_transaction_that_the_record_at_the_lso_belongs_to_or_nothing(
    found: Mapping[str, Reconciliation],
) -> None:
    assert not any(KIND in one.unknown for one in found.values())
    (first,) = found["hanging"].groups_of(HangingTransaction)
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
