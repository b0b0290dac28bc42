"""A topic that was deleted and made again: its records are not lost, and the new topic is judged by its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from reconcile_together import Make, record_of
from records import RecordBuilder, as_record

from analysis.reconcile.model import Reconciliation
from analysis.record.record import Record
from analysis.rows.deletions import deletions_of
from ebbtide.record.files import RecordFolder
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


def lost_values(found: Reconciliation) -> list[object]:
    return [example["value"] for one in found.anomalies if one.kind == "lost" for example in one.examples]


def recreated() -> RecordBuilder:
    """Three records of the deleted topic, and three of the new one at the same offsets."""
    builder = RecordBuilder().on(DELETED).led_by(1, epoch=0, at_ns=1).acked(0, 1, 2, at=0).not_in_final_read()
    return builder.on("t").led_by(2, epoch=0).acked(3, 4, 5, at=0)


def whole() -> RecordBuilder:
    """The final read has all records of the new topic."""
    return recreated().final(3, 4, 5).end(high_watermark=3)


def elected_before_the_deletion() -> RecordBuilder:
    builder = RecordBuilder().on(DELETED).led_by(1, epoch=0, at_ns=1).acked(0, 1, at=0).led_by(2, epoch=1)
    return builder.not_in_final_read().on("t").led_by(2, epoch=0).acked(3, at=0).final(3).end(high_watermark=1)


def sent_to_either(status: str) -> RecordBuilder:
    builder = whole().on(UNKNOWN)
    return builder.send(9, at=3 if status == "acked" else None, status=status).not_in_final_read()


LOST = {
    "those of the deleted topic are neither lost nor replaced": (whole(), [], ""),
    "one of the new topic is lost as ever": (recreated().final(3, 4).end(high_watermark=2), [5], ""),
    "an election before the deletion": (elected_before_the_deletion(), [], "no earlier election had lost them"),
    "acked by either": (sent_to_either("acked"), [], "no log says which of the two had them"),
    "failed at either": (sent_to_either("failed"), [], ""),
    "unknown at either": (sent_to_either("unknown"), [], ""),
}
"""Records, the values that are lost, and why it is not known whether more are."""
HWS = {topic: whole().on(topic).served(3).on("t").served(1).served(3) for topic in (DELETED, "t")}
"""An HW of one of the two topics, and a lower one of the new topic."""


def with_the_step(builder: RecordBuilder) -> Make:
    def make(folder: Path) -> Record:
        record = record_of(lambda: builder)(folder)
        write_steps(RecordFolder(folder), [RECREATED])
        return record

    return make


RECORDS = {name: with_the_step(builder) for name, (builder, _, _) in LOST.items()} | {
    name: with_the_step(builder) for name, builder in HWS.items()
}


@pytest.mark.spark
@pytest.mark.parametrize("name", LOST)
def test_a_record_is_lost_of_its_own_topic_or_it_is_not_known(found: Mapping[str, Reconciliation], name: str) -> None:
    _, lost, why = LOST[name]
    assert lost_values(found[name]) == lost
    assert ("lost" in found[name].unknown) == bool(why)
    assert why in found[name].unknown.get("lost", "")


@pytest.mark.spark
def test_records_of_a_deleted_topic_are_in_no_anomaly(found: Mapping[str, Reconciliation]) -> None:
    judged = found["those of the deleted topic are neither lost nor replaced"]
    assert not judged.anomalies
    assert not {"lost", "duplicate", "inconsistent-offset", "vanished"} & judged.unknown.keys()


@pytest.mark.spark
@pytest.mark.parametrize(("first", "regressions"), [(DELETED, 0), ("t", 1)])
def test_the_hw_of_the_new_topic_is_not_compared_with_that_of_the_deleted_one(
    found: Mapping[str, Reconciliation], first: str, regressions: int
) -> None:
    assert sum(one.count for one in found[first].anomalies if one.kind == "hw-regression") == regressions


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
