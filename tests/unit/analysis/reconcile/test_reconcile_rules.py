"""Every sentence of the counting rules, with a case that it counts and one that it does not.

Cases that share a manifest are topics of one record, so that Spark runs once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from reconcile_cases import Case, Expected, items_of, reconcile_cases
from records import RecordBuilder

from analysis.reconcile.model import Reconciliation

pytestmark = pytest.mark.spark


COMPLETE: dict[str, tuple[Case, Expected]] = {
    # lost
    "what the final read returned is not lost": (lambda b: b.acked(1, 2, at=0).final(1, 2), {}),
    "an acked value that is in no final log is lost": (lambda b: b.acked(1, 2, at=0).final(1), {"lost": [(1, 2)]}),
    "all is lost of an empty final log": (lambda b: b.acked(1, 2, at=0), {"lost": [(0, 1), (1, 2)]}),
    "a send without an offset is never lost": (lambda b: b.send(1, acks=0), {}),
    "failed and unknown sends are never lost": (
        lambda b: b.send(1, at=0, status="failed").send(2, at=1, status="unknown"),
        {},
    ),
    "a value of a committed transaction is lost": (
        lambda b: b.acked(1, at=0, txn=7, txn_outcome="committed"),
        {"lost": [(0, 1)]},
    ),
    "a value of an aborted transaction is not lost": (lambda b: b.acked(1, at=0, txn=7, txn_outcome="aborted"), {}),
    "a value of a transaction that may be open is not lost": (
        lambda b: b.acked(1, at=0, txn=7, txn_outcome="unknown").acked(2, at=1, txn=8),
        {},
    ),
    "below the final log start nothing is lost": (
        lambda b: b.acked(1, 2, 3, at=4).end(log_start=5, high_watermark=5),
        {"lost": [(5, 2), (6, 3)]},
    ),
    "a value at another offset of the final log is a duplicate, not lost": (
        lambda b: b.acked(1, at=0).final(1, at=3),
        {"duplicate": [(0, 1)]},
    ),
    "a value in the final log of another partition is lost": (
        lambda b: b.acked(1, at=0).final(1, at=0, partition=1),
        {"lost": [(0, 1)], "duplicate": [(0, 1)]},
    ),
    "what stands in the last leader's own log is not lost": (
        lambda b: b.acked(1, 2, at=0).final(1).led_by(2, epoch=1).replica(2, 1, 2).replica(1, 1),
        {},
    ),
    "what stands in a follower's log only is lost": (
        lambda b: b.acked(1, 2, at=0).final(1).led_by(1, epoch=0).led_by(2, epoch=1).replica(2, 1).replica(1, 1, 2),
        {"lost": [(1, 2)]},
    ),
    "without a last leader no log saves a record": (
        lambda b: b.acked(1, at=0).led_by(1, epoch=0).led_by(-1, epoch=1).replica(1, 1),
        {"lost": [(0, 1)]},
    ),
    "a record whose payload is damaged is not also lost": (
        lambda b: b.acked(1, 2, at=0).final(1, None),
        {"damaged": [(1, None)]},
    ),
    "a value that was acked twice is lost once": (
        lambda b: b.acked(1, at=0).acked(1, at=0),
        {"lost": [(0, 1)]},
    ),
    # vanished
    "what a consumer read and the final log lacks has vanished": (
        lambda b: b.read(1, 2, at=0).final(1),
        {"vanished": [(1, 2)]},
    ),
    "two readers of one value are one vanished item": (
        lambda b: b.read(1, at=0).read(1, at=0, consumer=2),
        {"vanished": [(0, 1)]},
    ),
    "another value in the final log means vanished": (
        lambda b: b.read(1, at=0).final(2),
        {"vanished": [(0, 1)], "inconsistent-offset": [(0, None)]},
    ),
    "another value in a later poll means vanished": (
        lambda b: b.read(1, at=0).read(2, at=0, consumer=2).final(2),
        {"vanished": [(0, 1)], "inconsistent-offset": [(0, None)]},
    ),
    "below the log start nothing vanishes, not even what was replaced": (
        lambda b: b.read(1, at=0).read(2, at=0).final(3, at=5).end(log_start=5),
        {"inconsistent-offset": [(0, None)]},
    ),
    "what moved to another offset has vanished from the first": (
        lambda b: b.read(1, at=0).final(1, at=4),
        {"vanished": [(0, 1)], "duplicate": [(0, 1)]},
    ),
    "what the last leader holds has not vanished": (
        lambda b: b.read(1, at=0).led_by(1, epoch=0).replica(1, 1),
        {},
    ),
    "a damaged record has not vanished": (lambda b: b.read(1, at=0).final(None), {"damaged": [(0, None)]}),
    "what a slow consumer got late, though the final log has another, is what vanished": (
        lambda b: (
            b.read(2, at=5, leader_epoch=1, polled_ns=100)
            .read(1, at=5, leader_epoch=0, consumer=2, polled_ns=300)
            .final(2, at=5, leader_epoch=1, polled_ns=900)
        ),
        {"vanished": [(5, 1)], "inconsistent-offset": [(5, None)]},
    ),
    "what the last leader holds was not replaced, whatever a later poll returned": (
        lambda b: b.read(2, at=0).read(1, at=0, consumer=2).led_by(1, epoch=0).replica(1, 2),
        {"vanished": [(0, 1)], "inconsistent-offset": [(0, None)]},
    ),
    "what the final read replaced itself has vanished": (
        lambda b: b.read(1, at=0).final(1).final(2),
        {"vanished": [(0, 1)], "inconsistent-offset": [(0, None)]},
    ),
    "a null value cannot vanish": (lambda b: b.read(None, at=0), {"damaged": [(0, None)]}),
    "the final read's own rows do not vanish": (lambda b: b.final(1), {}),
    # inconsistent-offset
    "an ack and a poll of two values at one offset are inconsistent": (
        lambda b: b.acked(1, at=0).acked(2, at=1).final(2, at=0),
        {"inconsistent-offset": [(0, None)], "lost": [(0, 1)], "duplicate": [(0, 2)]},
    ),
    "two acks at one offset are inconsistent": (
        lambda b: b.acked(1, at=0).acked(2, at=0).final(1),
        {"inconsistent-offset": [(0, None)], "lost": [(0, 2)]},
    ),
    "three values at one offset are one item": (
        lambda b: b.acked(1, at=0).acked(2, at=0).acked(3, at=0).final(1),
        {"inconsistent-offset": [(0, None)], "lost": [(0, 2), (0, 3)]},
    ),
    "an unknown or failed send is no evidence of an offset": (
        lambda b: (
            b.final(1).send(2, at=0, status="unknown").send(3, at=0, status="failed").send(1, at=5, status="unknown")
        ),
        {},
    ),
    "replicas are no evidence of an offset": (
        lambda b: b.acked(1, at=0).final(1).led_by(1, epoch=0).replica(1, 2, 1),
        {},
    ),
    "one offset of two partitions may hold two values": (
        lambda b: b.acked(1, at=0).acked(2, at=0, partition=1).final(1).final(2, partition=1),
        {},
    ),
    # duplicate
    "one value at three offsets is one duplicate": (
        lambda b: b.final(1, 1, 1),
        {"duplicate": [(0, 1)]},
    ),
    "an acked value polled elsewhere is a duplicate": (
        lambda b: b.acked(1, at=0).final(1, 2, 1),
        {"duplicate": [(0, 1)]},
    ),
    "a polled value that was never sent is no anomaly": (lambda b: b.read(1, at=0).final(1), {}),
    # hw-regression
    "a HW below an earlier one of the same epoch went back": (
        lambda b: b.served(5).served(4),
        {"hw-regression": [(4, None)]},
    ),
    "a HW below an earlier one of an older epoch went back": (
        lambda b: b.served(5, epoch=1).served(6, epoch=3).served(4, epoch=7),
        {"hw-regression": [(4, None)]},
    ),
    "every observation below an earlier one counts": (
        lambda b: b.served(5).served(3, epoch=1).served(4, epoch=1).served(5, epoch=1).served(4, epoch=2),
        {"hw-regression": [(3, None), (4, None), (4, None)]},
    ),
    "an equal HW did not go back": (lambda b: b.served(5).served(5, epoch=1), {}),
    "a deposed leader's late answer is none": (lambda b: b.served(3).served(9, epoch=1).served(4, epoch=0), {}),
    "a deposed leader may still regress against its own epoch": (
        lambda b: b.served(5).served(9, epoch=1).served(4, epoch=0),
        {"hw-regression": [(4, None)]},
    ),
    "an older epoch is found behind many others": (
        lambda b: [b.served(hw, epoch=epoch) for epoch, hw in enumerate((9, 1, 2, 3, 4, 5, 6))][-1].served(7, epoch=7),
        {"hw-regression": [(hw, None) for hw in range(1, 8)]},
    ),
    "what was asked before the other was answered does not count": (
        lambda b: b.served(5, asked_ns=100, at_ns=200).served(4, asked_ns=150, at_ns=300),
        {},
    ),
    "what was asked the moment the other was answered does not count": (
        lambda b: b.served(5, asked_ns=100, at_ns=200).served(4, asked_ns=200, at_ns=300),
        {},
    ),
    "without a leader epoch a HW is not judged": (
        lambda b: b.served(5, epoch=None).served(4).served(3, epoch=None),
        {},
    ),
    "without the time of asking a HW counts as the earlier one only": (
        lambda b: b.served(5, asked_ns=None).served(4, asked_ns=None).served(3),
        {"hw-regression": [(3, None)]},
    ),
    "fetch and checkpoint HWs may lag": (
        lambda b: b.served(5).served(4, source="fetch").served(3, source="checkpoint").served(5, source="list_offsets"),
        {},
    ),
    "partitions have HWs of their own": (lambda b: b.served(5).served(4, partition=1), {}),
    # replica-divergence
    "two values below both HWs diverge": (
        lambda b: b.replica(1, 1, 2).replica(2, 1, 3).checkpoint(1, 2).checkpoint(2, 2),
        {"replica-divergence": [(1, None)]},
    ),
    "two leader epochs below both HWs diverge": (
        lambda b: b.replica(1, 1, epoch=1).replica(2, 1, epoch=2).checkpoint(1, 2).checkpoint(2, 2),
        {"replica-divergence": [(0, None)]},
    ),
    "three different replicas are one item an offset": (
        lambda b: b.replica(1, 1).replica(2, 2).replica(3, 3).checkpoint(1, 1).checkpoint(2, 1).checkpoint(3, 1),
        {"replica-divergence": [(0, None)]},
    ),
    "at or above one replica's HW they may differ": (
        lambda b: b.replica(1, 1, 2).replica(2, 1, 3).checkpoint(1, 2).checkpoint(2, 1),
        {},
    ),
    "each replica's last checkpoint counts": (
        lambda b: (
            b.replica(1, 1, 2).replica(2, 1, 3).checkpoint(1, 2, at_ns=10).checkpoint(1, 1, at_ns=20).checkpoint(2, 2)
        ),
        {},
    ),
    "a row missing in one replica is no divergence": (
        lambda b: b.replica(1, 1, 2, 3).replica(2, 1).replica(2, 3, at=2).checkpoint(1, 3).checkpoint(2, 3),
        {},
    ),
    "a replica without a checkpoint is not compared": (
        lambda b: b.replica(1, 1).replica(2, 2).checkpoint(1, 1).checkpoint(3, 1),
        {},
    ),
    "control records are the same without a value": (
        lambda b: b.replica(1, None, control=True).replica(2, None, control=True).checkpoint(1, 1).checkpoint(2, 1),
        {},
    ),
    "a control record differs from a value": (
        lambda b: b.replica(1, None, control=True).replica(2, 1).checkpoint(1, 1).checkpoint(2, 1),
        {"replica-divergence": [(0, None)]},
    ),
    "a later block of offsets is compared too": (
        lambda b: b.replica(1, 1, 2, at=5000).replica(2, 1, 3, at=5000).checkpoint(1, 9000).checkpoint(2, 9000),
        {"replica-divergence": [(5001, None)]},
    ),
}

HIDING: dict[str, tuple[Case, Expected]] = {
    "a value of an aborted transaction is hidden, not vanished": (
        lambda b: b.send(1, status="unknown", txn=1, txn_outcome="aborted").read(1, at=0),
        {},
    ),
    "a value of a transaction that may be open is hidden, not vanished": (
        lambda b: b.acked(1, at=0, txn=1, txn_outcome="unknown").read(1, at=0),
        {},
    ),
    "a value of a committed transaction is not hidden": (
        lambda b: b.acked(1, at=0, txn=1, txn_outcome="committed").read(1, at=0),
        {"lost": [(0, 1)], "vanished": [(0, 1)]},
    ),
    "a value outside transactions is not hidden": (
        lambda b: b.acked(1, at=0).read(1, at=0),
        {"lost": [(0, 1)], "vanished": [(0, 1)]},
    ),
    "a value that sends does not know may be hidden where there are transactions": (lambda b: b.read(1, at=0), {}),
    "a hidden value that another one replaced has vanished": (
        lambda b: b.send(1, status="unknown", txn=1, txn_outcome="aborted").read(1, at=0).final(2),
        {"vanished": [(0, 1)], "inconsistent-offset": [(0, None)]},
    ),
}
INTERRUPTED: dict[str, tuple[Case, Expected]] = {
    "nothing is lost": (lambda b: b.acked(1, 2, at=0).final(1).end(high_watermark=1), {}),
    "what the final read passed by has vanished": (
        lambda b: b.read(1, 2, 3, at=0).final(1).final(3, at=2),
        {"vanished": [(1, 2)]},
    ),
    "what it did not reach has not": (lambda b: b.read(1, 2, 3, at=0).final(1), {}),
    "what the last row of the final read replaced has vanished, though of an older leader epoch": (
        lambda b: b.read(1, at=0, leader_epoch=1).final(2, leader_epoch=0),
        {"vanished": [(0, 1)], "inconsistent-offset": [(0, None)]},
    ),
    "what lies above its HW has vanished": (
        lambda b: b.read(1, 2, at=0).final(1).end(high_watermark=1),
        {"vanished": [(1, 2)]},
    ),
}
NO_FINAL_READ: dict[str, tuple[Case, Expected]] = {
    "nothing is lost": (lambda b: b.acked(1, at=0), {}),
    "a later poll shows what was replaced": (
        lambda b: b.read(1, at=0).read(2, at=0),
        {"vanished": [(0, 1)], "inconsistent-offset": [(0, None)]},
    ),
    "a later poll of a record of an older leader epoch shows nothing": (
        lambda b: b.read(2, at=0, leader_epoch=1).read(1, at=0, leader_epoch=0, consumer=2),
        {"inconsistent-offset": [(0, None)]},
    ),
    "a later poll of a record of a newer leader epoch shows what was replaced": (
        lambda b: b.read(1, at=0, leader_epoch=0).read(2, at=0, leader_epoch=1),
        {"vanished": [(0, 1)], "inconsistent-offset": [(0, None)]},
    ),
    "of two values of one leader epoch, each got before the other, each was replaced": (
        lambda b: b.read(1, at=0, leader_epoch=3).read(2, at=0, leader_epoch=3).read(1, at=0, leader_epoch=3),
        {"vanished": [(0, 1), (0, 2)], "inconsistent-offset": [(0, None)]},
    ),
    "a poll at the same time is not later": (
        lambda b: b.read(1, at=0, polled_ns=5).read(2, at=0, polled_ns=5),
        {"inconsistent-offset": [(0, None)]},
    ),
}
SETTINGS: dict[str, tuple[Callable[[], RecordBuilder], dict[str, tuple[Case, Expected]]]] = {
    "complete": (RecordBuilder, COMPLETE),
    "read_committed": (lambda: _read_committed(), HIDING),
    "interrupted": (lambda: RecordBuilder(status="interrupted"), INTERRUPTED),
    "no final read": (lambda: RecordBuilder(final_consumer=None), NO_FINAL_READ),
}


def _read_committed() -> RecordBuilder:
    builder = RecordBuilder().producer(1, transactional=True)
    return builder.on("other", base=900_000).final(1, isolation="read_committed")


@pytest.fixture(scope="module")
def reconciliations(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reconciliation]:
    """Each setting's cases, reconciled together as topics of one record."""
    return {
        setting: reconcile_cases(spark, tmp_path_factory.mktemp("rules"), builder(), cases)
        for setting, (builder, cases) in SETTINGS.items()
    }


@pytest.mark.parametrize(
    ("setting", "name"), [(setting, name) for setting, (_, cases) in SETTINGS.items() for name in cases]
)
def test_the_counting_rules(reconciliations: dict[str, Reconciliation], setting: str, name: str) -> None:
    cases = SETTINGS[setting][1]
    assert items_of(reconciliations[setting], list(cases).index(name)) == cases[name][1]
