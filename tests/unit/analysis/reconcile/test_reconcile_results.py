"""What the judge gets besides the items: counts, lost ranges, drops of the HW, what is unknown; and anomalies/."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from quick import quick_first
from reconcile_cases import Case
from reconcile_together import record_of
from records import RecordBuilder, as_record

from analysis.items.summary import EXAMPLES_MAX
from analysis.judge.causes.lost_offsets import lowest_between
from analysis.reconcile.model import LostRange, Reconciliation, VanishedRange
from analysis.record.record import Record
from analysis.rows import summing
from bench.reconciling import reconcile
from ebbtide.record.tables import ANOMALY_SCHEMA
from ebbtide.record.verdict import Counts

pytestmark = pytest.mark.spark

MANY = range(1, 51)


def reconcile_built(spark: SparkSession, builder: RecordBuilder, folder: Path) -> Reconciliation:
    return reconcile(spark, as_record(builder.write(folder), builder.manifest()))


def topics(builder: RecordBuilder, tell: Mapping[str, Case], begin: Case = lambda b: b) -> RecordBuilder:
    """Each case as a topic of its name."""
    for number, (topic, build) in enumerate(tell.items()):
        begin(builder.on(topic, base=number * 100))
        build(builder)
    return builder


def stored_of(record: Record) -> pa.Table:
    return pq.read_table(record.folder / "anomalies")


@pytest.fixture
def lost_ranges(found: Mapping[str, Reconciliation]) -> dict[str, list[LostRange]]:
    """Lost ranges by topic."""
    ranges = found["lost"].groups_of(LostRange)
    return {topic: [one for one in ranges if one.topic == topic] for topic in LOST}


LOST: dict[str, Case] = {
    "never passed": lambda b: b.acked(1, at=5, acks=1).served(5),
    "passed": lambda b: b.acked(1, at=5, acks=1).served(6),
    "acks=all": lambda b: b.acked(1, at=5),
    "read": lambda b: b.acked(1, at=5, acks=1).read(1, at=5),
    "passed before it was sent": lambda b: b.served(6).acked(1, at=5, acks=1),
    "passed on the record that replaced it": lambda b: (
        b.led_by(1, epoch=0).acked(1, at=5, acks=1).led_by(2, epoch=1).served(9, epoch=1).final(2, at=5, leader_epoch=1)
    ),
    "passed before it was replaced": lambda b: (
        b.led_by(1, epoch=0).acked(1, at=5, acks=1).served(6, epoch=0).led_by(2, epoch=1).final(2, at=5, leader_epoch=1)
    ),
    "replaced by what the last leader's log tells": lambda b: (
        b.led_by(1, epoch=0)
        .acked(1, at=5, acks=1)
        .led_by(2, epoch=1)
        .served(9, epoch=1)
        .replica(2, None, at=5, epoch=1)
    ),
    "acked by a leader deposed already": lambda b: (
        b.led_by(1, epoch=0).led_by(2, epoch=1).acked(1, at=5, acks=1).served(9, epoch=1).replica(2, 2, at=5, epoch=1)
    ),
    "another stood there before": lambda b: (
        b.read(2, at=5, leader_epoch=0).led_by(2, epoch=1).acked(1, at=5, acks=1).served(6, epoch=1)
    ),
    "acked two elections after its leader was deposed": lambda b: (
        b.led_by(1, epoch=0)
        .led_by(2, epoch=1)
        .acked(2, at=5)
        .led_by(3, epoch=2)
        .acked(1, at=5, acks=1)
        .served(9, epoch=2)
        .final(2, at=5, leader_epoch=1)
    ),
    "deposed, and what stands there is of an unknown epoch": lambda b: (
        b.led_by(1, epoch=0).led_by(2, epoch=1).acked(1, at=5, acks=1).served(9, epoch=1).final(2, at=5)
    ),
    "another of an unknown epoch that does not stand": lambda b: (
        b.led_by(1, epoch=0).acked(1, at=5, acks=1).served(9).led_by(2, epoch=1).acked(2, at=5).served(9, epoch=1)
    ),
    "two others, one of an unknown epoch": lambda b: (
        b.led_by(1, epoch=0)
        .acked(1, at=5, acks=1)
        .led_by(2, epoch=1)
        .acked(2, at=5)
        .served(9, epoch=1)
        .led_by(1, epoch=2)
        .final(3, at=5, leader_epoch=2)
    ),
    "two of an unknown epoch, and no election is known": lambda b: (
        b.acked(1, at=5, acks=1).acked(2, at=5, acks=1).served(9)
    ),
    "passed, and now a gap": lambda b: b.acked(1, at=5, acks=1).served(9).final(2, at=6),
    "passed by a HW below an earlier one": lambda b: b.served(9).acked(1, at=5, acks=1).served(7),
    "passed by a HW between two others": lambda b: b.served(9).acked(1, at=5, acks=1).served(7).served(5),
    "eras": lambda b: (
        b.acked(1, at=0)
        .led_by(1, epoch=3)
        .acked(2, 3, at=1)
        .led_by(2, epoch=4)
        .acked(4, at=3)
        .acked(5, 6, at=4, acks=1)
        .acked(7, at=9, acks=1)
    ),
}
"""Each topic is one way to lose a record that was acked with acks=1."""


MARKERS: dict[str, Case] = {
    "a gap": lambda b: b.final(2, at=6),
    "a marker in the last leader's log": lambda b: b.led_by(2, epoch=1).replica(2, None, at=5, epoch=1),
    "an empty end": lambda b: b.end(high_watermark=5).final(2, at=4),
}
"""What is at the place of a lost record, where a marker of a transaction may stand that nobody returns."""


VANISHED: dict[str, Case] = {
    "acked as well": lambda b: b.acked(1, at=0).read(1, at=0, leader_epoch=3),
    "nobody knew": lambda b: (
        b.send(1, status="unknown")
        .send(2, status="unknown")
        .read(1, 2, at=5, leader_epoch=3, polled_ns=70)
        .read(4, at=9, leader_epoch=3, polled_ns=60)
        .read(3, at=7, leader_epoch=4, polled_ns=80)
    ),
    "stands elsewhere": lambda b: b.acked(1, at=2).read(1, at=0, leader_epoch=0).final(9, 8, 1),
    "of an aborted transaction": lambda b: (
        b.acked(1, at=0, txn=1, txn_outcome="aborted").read(1, at=0, leader_epoch=0).final(2)
    ),
    "of a committed one, acked late": lambda b: b.send(1, status="unknown", txn=1, txn_outcome="committed").read(
        1, at=0, leader_epoch=0
    ),
    "of an unknown epoch": lambda b: b.read(1, at=0),
    "stands": lambda b: b.read(1, at=0, leader_epoch=0).final(1),
    "other epochs": lambda b: b.replica(1, 1, 2, epoch=3).replica(2, 1, 2, epoch=5).checkpoint(1, 2).checkpoint(2, 2),
    "one epoch": lambda b: b.replica(1, 1, epoch=3).replica(2, 2, epoch=3).checkpoint(1, 2).checkpoint(2, 2),
}


@pytest.mark.parametrize(
    ("topic", "committed"),
    [
        ("never passed", False),
        ("passed", True),
        ("acks=all", True),
        ("read", True),
        ("passed before it was sent", False),
        ("passed on the record that replaced it", False),
        ("passed before it was replaced", True),
        ("replaced by what the last leader's log tells", False),
        ("acked by a leader deposed already", False),
        ("another stood there before", True),
        ("acked two elections after its leader was deposed", False),
        ("deposed, and what stands there is of an unknown epoch", False),
        ("passed, and now a gap", True),
        ("passed by a HW below an earlier one", True),
        ("passed by a HW between two others", True),
    ],
)
def test_a_lost_record_was_committed_if_the_hw_passed_it(
    lost_ranges: dict[str, list[LostRange]], topic: str, committed: bool
) -> None:
    assert [(one.committed, one.count) for one in lost_ranges[topic]] == [(committed, 1)]


def test_where_a_marker_may_stand_that_nobody_returns_no_hw_tells_of_the_record_that_is_gone(
    found: Mapping[str, Reconciliation],
) -> None:
    assert {one.topic: one.committed for one in found["markers"].groups_of(LostRange)} == {
        "a gap": False,
        "a marker in the last leader's log": True,
        "an empty end": True,
    }


@pytest.mark.parametrize(
    ("topic", "committed"),
    [
        # Each time the other, acked with acks=all, is lost too.
        ("another of an unknown epoch that does not stand", [1, -1]),
        ("two others, one of an unknown epoch", [-1]),
        ("two of an unknown epoch, and no election is known", []),
    ],
)
def test_of_records_at_one_offset_the_hw_passed_those_that_surely_stood_there(
    lost_ranges: dict[str, list[LostRange]], topic: str, committed: list[int]
) -> None:
    assert sorted((one.acks for one in lost_ranges[topic] if one.committed), reverse=True) == committed
    assert sum(one.count for one in lost_ranges[topic]) == 2


def test_lost_records_are_grouped_by_acks_and_by_the_epoch_in_force_when_acked(
    lost_ranges: dict[str, list[LostRange]],
) -> None:
    ranges = [
        (one.acks, one.acked_after_epoch, one.first_offset, one.last_offset, one.count) for one in lost_ranges["eras"]
    ]
    assert ranges == [(-1, None, 0, 0, 1), (-1, 3, 1, 2, 2), (-1, 4, 3, 3, 1), (1, 4, 4, 9, 3)]
    assert all(one.first_done_ns < one.last_done_ns for one in lost_ranges["eras"] if one.count > 1)


def test_a_vanished_value_is_passed_to_the_judge_unless_it_is_lost_anyway(
    found: Mapping[str, Reconciliation], made: Mapping[str, Record]
) -> None:
    vanished = found["vanished"].groups_of(VanishedRange)

    def of(topic: str) -> list[tuple[int | None, bool, int, int, int]]:
        ranges = [one for one in vanished if one.topic == topic]
        return [(one.leader_epoch, one.committed, one.first_offset, one.last_offset, one.count) for one in ranges]

    assert {topic: of(topic) for topic in VANISHED} == {
        "acked as well": [],
        "nobody knew": [(3, True, 5, 9, 3), (4, True, 7, 7, 1)],
        "stands elsewhere": [(0, False, 0, 0, 1)],
        "of an aborted transaction": [(0, False, 0, 0, 1)],
        "of a committed one, acked late": [(0, True, 0, 0, 1)],
        "of an unknown epoch": [(None, True, 0, 0, 1)],
        "stands": [],
        "other epochs": [(3, False, 0, 1, 2)],
        "one epoch": [(None, False, 0, 0, 1)],
    }
    nobody_knew = VanishedRange(
        kind="vanished",
        topic="nobody knew",
        partition=0,
        leader_epoch=3,
        committed=True,
        first_offset=5,
        last_offset=9,
        count=3,
        read_ns=60,
    )
    assert nobody_knew in vanished
    # What the judge reads of each range from anomalies/ is the range.
    assert [lowest_between(made["vanished"], one, [one.last_offset]) for one in vanished] == [
        sorted({one.first_offset, one.last_offset}) for one in vanished
    ]
    assert {one.kind for one in vanished if "epoch" in one.topic} == {"vanished", "replica-divergence"}


def many_lost() -> RecordBuilder:
    builder = RecordBuilder().producer(1, idempotent=True)
    for value in reversed(MANY):
        builder.acked(value, at=value)
    return builder.final(60, 60)


def test_examples_are_the_smallest_and_all_items_are_stored(
    found: Mapping[str, Reconciliation], made: Mapping[str, Record]
) -> None:
    counted = {one.kind: one for one in found["many lost"].anomalies}
    assert counted["lost"].count == len(MANY)
    assert [one["offset"] for one in counted["lost"].examples] == list(MANY)[:EXAMPLES_MAX]
    assert counted["lost"].examples[0]["sent_ns"] > 0
    assert counted["duplicate"].examples[0]["idempotent"] is False
    assert len(counted["duplicate"].examples[0]["places"]) == 2
    assert found["many lost"].counts == Counts(sends=50, acked=50, polls=2)
    stored = stored_of(made["many lost"])
    assert [(field.name, field.type) for field in stored.schema] == [
        (field.name, field.type) for field in ANOMALY_SCHEMA
    ]
    assert sorted(row["offset"] for row in stored.to_pylist() if row["kind"] == "lost") == list(MANY)
    msgspec.json.encode(found["many lost"])


def test_a_duplicate_says_whose_it_is_and_at_how_many_places_it_stands(found: Mapping[str, Reconciliation]) -> None:
    (duplicates,) = [one for one in found["duplicates"].anomalies if one.kind == "duplicate"]
    told = {one["value"]: (one["idempotent"], one["standing"], len(one["places"])) for one in duplicates.examples}
    assert told == {1: (True, 2, 2), 2: (True, 1, 2)}


def unreadable_duplicates() -> RecordBuilder:
    builder = RecordBuilder().on("unread").acked(1, at=0).not_in_final_read().on("t")
    for offset in range(30):
        builder.acked(1, at=offset)
    return builder.final(1, at=29).end(log_start=25)


def test_a_duplicate_says_at_how_many_places_nothing_can_be_read_though_not_all_are_listed(
    found: Mapping[str, Reconciliation],
) -> None:
    (duplicates,) = [one for one in found["unreadable duplicates"].anomalies if one.kind == "duplicate"]
    (told,) = duplicates.examples
    assert (len(told["places"]), told["stood"], told["standing"], told["unreadable"]) == (20, 31, 1, 25 + 1)


RECORDS = {
    "lost": record_of(lambda: topics(RecordBuilder(), LOST)),
    "markers": record_of(
        lambda: topics(
            RecordBuilder().producer(2, transactional=True),
            MARKERS,
            lambda b: b.led_by(1, epoch=0).acked(1, at=5, acks=1).served(9),
        )
    ),
    "vanished": record_of(lambda: topics(RecordBuilder(), VANISHED)),
    "many lost": record_of(many_lost),
    "duplicates": record_of(
        lambda: RecordBuilder().producer(1, idempotent=True).acked(1, 2, at=0).read(2, at=4).final(1, 2, 1)
    ),
    "unreadable duplicates": record_of(unreadable_duplicates),
}


@pytest.mark.parametrize("narrows", quick_first([True, False]))
def test_anomalies_of_an_earlier_judgement_are_replaced_and_nothing_stays_in_the_sessions_memory(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, narrows: bool
) -> None:
    """Also in a folder whose name looks like a pattern."""
    if not narrows:
        monkeypatch.setattr(summing, "BLOCKS_MAX", -1)
    folder = tmp_path / "a b*[1]{x},?" / "run:1"
    builder = RecordBuilder().acked(1, at=0).final(2, at=3)
    assert reconcile_built(spark, builder, folder).anomalies
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty()
    assert not spark.sparkContext._jsc.getPersistentRDDs()
    builder.tables["polls"].clear()
    builder.final(1)
    assert reconcile_built(spark, builder, folder).anomalies == []
    stored = pq.read_table(folder / "anomalies")
    assert (stored.num_rows, stored.schema) == (0, ANOMALY_SCHEMA)
    assert not list(folder.glob(".anomalies*"))
