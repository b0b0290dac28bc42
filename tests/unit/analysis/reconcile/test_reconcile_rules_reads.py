"""The counting rules of what consumers got, in which order, and of the order of appends: cases for and against."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from reconcile_cases import Case, Expected, items_of, reconcile_cases
from records import RecordBuilder

from analysis.reconcile.model import Reconciliation

pytestmark = pytest.mark.spark

RC = "read_committed"

COMPLETE: dict[str, tuple[Case, Expected]] = {
    # unseen
    "a record that a session passed over and nobody got is unseen": (
        lambda b: b.final(1, 2, 3).read(1, at=0).read(3, at=2),
        {"unseen": [(1, None)]},
    ),
    "what another consumer got was seen": (
        lambda b: b.final(1, 2, 3).read(1, at=0).read(3, at=2).read(2, at=1, consumer=2),
        {},
    ),
    "between two sessions nothing is unseen": (
        lambda b: b.final(1, 2, 3).read(1, at=0).read(3, at=2, session=2),
        {},
    ),
    "before the first and behind the last row nothing is unseen": (lambda b: b.final(1, 2, 3).read(2, at=1), {}),
    "sessions of two consumers do not add up": (
        lambda b: b.final(1, 2, 3).read(1, at=0).read(3, at=2, consumer=2),
        {},
    ),
    "an offset at which a consumer got another value was seen": (
        lambda b: b.final(1, 2, 3).read(1, 9, 3, at=0),
        {"vanished": [(1, 9)], "inconsistent-offset": [(1, None)]},
    ),
    "what the final read lacks is not unseen": (lambda b: b.final(1).final(3, at=2).read(1, at=0).read(3, at=2), {}),
    "unseen offsets of far blocks are found": (
        lambda b: b.final(1, at=10).final(2, 3, at=5_000).read(1, at=10).read(3, at=5_001),
        {"unseen": [(5_000, None)]},
    ),
    "an offset at each end of a block is found": (
        lambda b: b.final(1, 2, at=62).final(3, 4, at=64).read(1, at=62).read(4, at=65),
        {"unseen": [(63, None), (64, None)]},
    ),
    "above a session's last row that stands nothing is unseen": (
        lambda b: b.final(1, 2, 3, 4, 5).read(1, at=0).read(3, at=2).read(9, at=4),
        {"unseen": [(1, None)], "vanished": [(4, 9)], "inconsistent-offset": [(4, None)]},
    ),
    # poll-skip
    "a jump over a record is a skip": (
        lambda b: b.final(1, 2, 3).read(1, at=0, consumer=2).read(2, at=1, consumer=2).read(3, at=2, prev_offset=0),
        {"poll-skip": [(2, 3)]},
    ),
    "a jump over many records is one skip": (
        lambda b: b.final(*range(1, 201)).read(*range(1, 201), at=0).read(200, at=199, prev_offset=0, consumer=2),
        {"poll-skip": [(199, 200)]},
    ),
    "a jump over offsets that do not exist is none": (
        lambda b: b.final(1).final(2, at=70).read(2, at=70, prev_offset=0),
        {},
    ),
    "a jump is over what lies strictly between": (
        lambda b: b.final(1, 2, at=63).read(1, 2, at=63).read(2, at=64, prev_offset=63),
        {},
    ),
    "two equal jumps are two skips": (
        lambda b: (
            b.final(1, 2, 3)
            .read(1, 2, 3, at=0)
            .read(3, at=2, prev_offset=0, consumer=2)
            .read(3, at=2, prev_offset=0, consumer=3)
        ),
        {"poll-skip": [(2, 3), (2, 3)]},
    ),
    "a jump that ends at what was cut off since skips nothing": (
        lambda b: b.final(1, 2, 3).read(2, at=1).read(1, at=0, consumer=2).read(9, at=2, consumer=2, prev_offset=0),
        {"vanished": [(2, 9)], "inconsistent-offset": [(2, None)]},
    ),
    "a jump that ends at a value appended again under a later epoch skips nothing": (
        lambda b: (
            b.final(1).final(2, 3, at=1, leader_epoch=1).read(1, at=0).read(3, at=2, prev_offset=0, leader_epoch=0)
        ),
        {},
    ),
    "the first row of a session skips nothing": (lambda b: b.final(1, 2, 3).read(3, at=2), {}),
    # aborted-read
    "a failed send that was read is an aborted read": (
        lambda b: b.send(1, status="failed").final(1),
        {"aborted-read": [(0, 1)]},
    ),
    "an unknown send that was read is none": (lambda b: b.send(1, status="unknown").final(1), {}),
    "a failed send read at two offsets is one aborted read": (
        lambda b: b.send(1, status="failed").read(1, at=4).final(1, at=4).final(1, at=2),
        {"aborted-read": [(2, 1)], "duplicate": [(2, 1)]},
    ),
    "an aborted transaction seen by read_committed is an aborted read": (
        lambda b: b.acked(1, at=0, txn=1, txn_outcome="aborted").final(1).read(1, at=0, isolation=RC),
        {"aborted-read": [(0, 1)]},
    ),
    "an aborted transaction seen by read_uncommitted is none": (
        lambda b: b.acked(1, at=0, txn=1, txn_outcome="aborted").final(1).read(1, at=0),
        {},
    ),
    "a transaction of unknown outcome seen by read_committed is none": (
        lambda b: b.acked(1, at=0, txn=1, txn_outcome="unknown").final(1).read(1, at=0, isolation=RC),
        {},
    ),
    # dirty-order
    "a later send at a lower offset is out of order": (
        lambda b: b.acked(1, at=1).acked(2, at=0).final(2, 1),
        {"dirty-order": [(0, 2)]},
    ),
    "every adjacent inversion counts once": (
        lambda b: b.acked(1, at=3).acked(2, at=2).acked(3, at=4).acked(4, at=1).final(4, 2, 1, 3, at=1),
        {"dirty-order": [(1, 4), (2, 2)]},
    ),
    "two producers may interleave": (
        lambda b: b.acked(1, at=1, producer=1).acked(2, at=0, producer=2).final(2, 1),
        {},
    ),
    "two partitions have orders of their own": (
        lambda b: b.acked(1, at=1).acked(2, at=0, partition=1).final(1, at=1).final(2, partition=1),
        {},
    ),
    "after a truncation offsets may begin lower": (
        lambda b: b.acked(1, at=5).acked(2, at=0).final(2),
        {"lost": [(5, 1)]},
    ),
    "what the last leader's log holds was not cut": (
        lambda b: b.acked(1, at=5).acked(2, at=0).final(2).led_by(1, epoch=0).replica(1, 1, at=5),
        {"dirty-order": [(0, 2)]},
    ),
    "the order is that of the sequence, not of time": (
        lambda b: b.acked(1, at=1, sequence=2).acked(2, at=0, sequence=1).final(2, 1),
        {},
    ),
    "an unknown send has no place in the order": (
        lambda b: b.acked(1, at=1).send(2, at=0, status="unknown").final(2, 1),
        {},
    ),
    # damaged
    "a damaged record is one item, whoever reads it": (
        lambda b: b.read(None, at=0).read(None, at=0, consumer=2).final(None),
        {"damaged": [(0, None)]},
    ),
    # what is no anomaly
    "control records and aborted transactions leave holes": (
        lambda b: (
            b.acked(1, 2, at=0, txn=1, txn_outcome="aborted")
            .acked(3, at=3, txn=2, txn_outcome="committed")
            .final(1, 2)
            .final(3, at=3, prev_offset=1)
            .read(9, at=5, isolation=RC, consumer=2)
            .final(9, at=5, prev_offset=3)
            .send(9, at=5, txn=3, txn_outcome="committed")
            .read(3, at=3, isolation=RC)
            .read(9, at=5, isolation=RC, prev_offset=3)
        ),
        {},
    ),
    "retention removes records below the log start": (
        lambda b: b.acked(1, 2, 3, at=0).read(1, 2, 3, at=0).final(3, at=2).end(log_start=2),
        {},
    ),
}
COMPACTED: dict[str, tuple[Case, Expected]] = {
    "what a compacted topic lacks is not lost and has not vanished": (
        lambda b: b.acked(1, 2, at=0).read(1, 2, at=0).final(2, at=1).compacted(),
        {},
    ),
    "other topics are judged": (lambda b: b.acked(1, at=0).final(2, at=1), {"lost": [(0, 1)]}),
}
TRANSACTIONS: dict[str, tuple[Case, Expected]] = {
    "read_committed passes over what is not known to be committed": (
        lambda b: (
            b.send(1, at=0)
            .send(2, at=1, txn=1, txn_outcome="aborted")
            .send(3, at=2, txn=2, txn_outcome="unknown")
            .send(4, at=3)
            .final(1, 2, 3, 4)
            .read(1, at=0, isolation=RC)
            .read(4, at=3, isolation=RC, prev_offset=0)
        ),
        {},
    ),
    "read_committed passes over what sends does not know": (
        lambda b: (
            b.send(1, at=0)
            .send(3, at=2)
            .final(1, 2, 3)
            .read(1, at=0, isolation=RC)
            .read(3, at=2, isolation=RC, prev_offset=0)
        ),
        {},
    ),
    "read_committed must not pass over what is committed": (
        lambda b: (
            b.send(1, at=0)
            .send(2, status="unknown", txn=1, txn_outcome="committed")
            .send(3, at=2)
            .final(1, 2, 3)
            .read(1, at=0, isolation=RC)
            .read(3, at=2, isolation=RC, prev_offset=0)
        ),
        {"unseen": [(1, None)], "poll-skip": [(2, 3)]},
    ),
    "offsets of aborted records that were cut off and filled again are neither unseen nor skipped": (
        lambda b: (
            b.send(1, at=0, txn=1, txn_outcome="committed")
            .send(2, at=2, txn=2, txn_outcome="aborted")
            .send(3, at=4, txn=3, txn_outcome="committed")
            .read(1, at=0, isolation=RC, leader_epoch=0)
            .read(3, at=4, isolation=RC, leader_epoch=0, prev_offset=0)
            .acked(4, 5, 6, 7, at=1, txn=4, txn_outcome="committed")
            .final(1, leader_epoch=0)
            .final(4, 5, 6, 7, at=1, leader_epoch=1)
        ),
        {"lost": [(4, 3)], "vanished": [(4, 3)], "inconsistent-offset": [(2, None), (4, None)]},
    ),
    "read_uncommitted must not pass over what was aborted": (
        lambda b: (
            b.send(1, at=0)
            .send(2, at=1, txn=1, txn_outcome="aborted")
            .send(3, at=2)
            .final(1, 2, 3)
            .read(1, at=0)
            .read(3, at=2, prev_offset=0)
        ),
        {"unseen": [(1, None)], "poll-skip": [(2, 3)]},
    ),
}
NO_FINAL_READ: dict[str, tuple[Case, Expected]] = {
    "without a final read nothing is skipped, unseen or out of order": (
        lambda b: b.acked(1, at=2).acked(2, at=1).read(1, at=2, prev_offset=0),
        {},
    ),
    "without a final read the position still went back": (
        lambda b: b.read(1, at=0, prev_offset=3),
        {"poll-back": [(0, 1)]},
    ),
}
SETTINGS: dict[str, tuple[Callable[[], RecordBuilder], dict[str, tuple[Case, Expected]]]] = {
    "complete": (RecordBuilder, COMPLETE),
    "compacted": (RecordBuilder, COMPACTED),
    "transactions": (lambda: RecordBuilder().producer(1, transactional=True), TRANSACTIONS),
    "no final read": (lambda: RecordBuilder(final_consumer=None), NO_FINAL_READ),
}


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


@pytest.mark.parametrize(("topic", "unknown"), [("__consumer_offsets", set()), ("u", {"lost", "vanished"})])
def test_that_kafka_compacts_its_own_topics_leaves_nothing_unknown(
    spark: SparkSession, tmp_path: Path, topic: str, unknown: set[str]
) -> None:
    cases: dict[str, tuple[Case, Expected]] = {
        "compacted": (lambda b: b.acked(1, 2, at=0).read(1, 2, at=0).final(1, 2, at=0).compacted(topic), {})
    }
    found = reconcile_cases(spark, tmp_path, RecordBuilder(), cases)
    assert found.unknown.keys() & {"lost", "vanished"} == unknown
