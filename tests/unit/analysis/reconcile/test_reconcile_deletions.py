"""Records that a step deleted on purpose are not lost; whether they stood until then is known or unknown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from reconcile_together import Make, record_of
from records import RecordBuilder, as_record

from analysis.reconcile.model import Reconciliation
from analysis.record.record import Record
from analysis.rows.deletions import Deletion, deletions_of
from ebbtide.record.files import RecordFolder
from ebbtide.record.steps import STEPS, StepEntry, write_steps

LATER_NS = 10**15


def deletion(*, new: int = 3, old: int = 0, epoch: int = 0, answered_ns: int = LATER_NS, **proof: Any) -> StepEntry:
    """A step that moved the log start of t-0."""
    move = {"old": old, "new": new, "leader_epoch": epoch, "asked_ns": 1, "answered_ns": answered_ns}
    return StepEntry(
        index=0,
        step="delete-records",
        effect_ns=answered_ns,
        parameters={"partition": "t-0"},
        proof={"log_start": move | proof},
    )


def lost_values(found: Reconciliation) -> list[object]:
    return [example["value"] for one in found.anomalies if one.kind == "lost" for example in one.examples]


def read_back(folder: Path, builder: RecordBuilder, *steps: StepEntry) -> tuple[Deletion, ...]:
    record = builder.write(folder / "run")
    write_steps(RecordFolder(record), list(steps))
    return deletions_of(as_record(record))


def epochs(*began: int) -> RecordBuilder:
    """Leader epochs from 0 on, which began at these times."""
    builder = RecordBuilder()
    for epoch, at_ns in enumerate(began):
        builder.led_by(1 + epoch % 2, epoch=epoch, at_ns=at_ns)
    return builder


def test_a_deletion_knows_the_leader_epoch_in_which_it_happened(tmp_path: Path) -> None:
    (one,) = read_back(tmp_path, epochs(10, 20, 30), deletion(epoch=1))
    assert (one.log_start, one.began_ns, one.ended_ns, one.is_first_epoch) == (3, 20, 30, False)


def test_a_deletion_in_the_only_epoch_has_neither_an_earlier_nor_a_later_one(tmp_path: Path) -> None:
    (one,) = read_back(tmp_path, epochs(10), deletion())
    assert (one.ended_ns, one.is_first_epoch) == (None, True)


def test_an_epoch_that_began_twice_is_of_a_topic_made_anew_and_proves_nothing(tmp_path: Path) -> None:
    builder = epochs(10, 20).led_by(1, epoch=0, at_ns=30)
    (one,) = read_back(tmp_path, builder, deletion())
    assert one.began_ns is None


def loss(node: int, *, fired_ns: int, step: str = "power-loss", **proof: Any) -> StepEntry:
    """A step after which a node's logs may lack records."""
    return StepEntry(index=1, step=step, nodes=(node,), fired_ns=fired_ns, proof=proof)


@pytest.mark.parametrize(
    ("lost", "is_sure"),
    [
        (loss(1, fired_ns=15), False),
        (loss(1, fired_ns=15, step="wipe-disk"), False),
        (loss(1, fired_ns=15, step="fill-disk", lost_bytes=7), False),
        (loss(0, fired_ns=5, step="rolling", parts=[{"step": "power-loss", "nodes": [1], "fired_ns": 15}]), False),
        (loss(1, fired_ns=15, logs={"t-0": {"leo_before": 9, "leo_after": 8}}), False),
        (loss(1, fired_ns=15, logs={"t-0": {"leo_before": 9, "leo_after": 9}}), True),
        (loss(1, fired_ns=15, step="kill"), True),
        (loss(2, fired_ns=15), True),
        (loss(1, fired_ns=25), True),
    ],
)
def test_what_a_leader_may_have_lost_before_the_deletion_surely_stood_at_no_time(
    tmp_path: Path, lost: StepEntry, is_sure: bool
) -> None:
    (one,) = read_back(tmp_path, epochs(10), lost, deletion(answered_ns=20))
    assert one.began_ns == (10 if is_sure else None)


@pytest.mark.parametrize(
    "proof",
    [
        {"new": "3"},
        {"asked_ns": None},
        {"new": 0},
    ],
)
def test_a_proof_of_another_shape_or_without_a_move_deletes_nothing(tmp_path: Path, proof: dict[str, Any]) -> None:
    assert read_back(tmp_path, epochs(10), deletion(**proof)) == ()


def test_a_damaged_steps_file_deletes_nothing(tmp_path: Path) -> None:
    record = epochs(10).write(tmp_path / "run")
    (record / STEPS).write_text("{", "utf-8")
    assert deletions_of(as_record(record)) == ()


def five() -> RecordBuilder:
    """Five acked records of one leader."""
    return RecordBuilder().led_by(1, epoch=0).acked(0, 1, 2, 3, 4, at=0)


def of_a_later_epoch(acks: int) -> RecordBuilder:
    builder = RecordBuilder().led_by(1, epoch=0, at_ns=1).led_by(2, epoch=1, at_ns=2)
    builder.acked(0, 1, 2, at=0, acks=acks, sent_ns=5_000_000, done_ns=6_000_000).acked(3, at=3)
    return builder.final(3, at=3).end(log_start=3, high_watermark=4)


def passed_by(log_start: int, then: int) -> RecordBuilder:
    builder = RecordBuilder().led_by(1, epoch=0).acked(*range(7), at=0)
    builder.read(0, at=0).read(then, at=then, prev_offset=0)
    return builder.final(*range(log_start, 7), at=log_start).end(log_start=log_start, high_watermark=7)


LOST: dict[str, tuple[RecordBuilder, StepEntry, list[int], str]] = {
    "records below a deleted log start are neither lost nor unknown": (
        five().final(3, 4, at=3).end(log_start=3, high_watermark=5),
        deletion(new=3),
        [],
        "",
    ),
    "a record above the deleted log start is lost as ever": (
        five().final(3, at=3).end(log_start=3, high_watermark=4),
        deletion(new=3),
        [4],
        "",
    ),
    "without the step the records below the log start are not known to have been there": (
        five().final(3, 4, at=3).end(log_start=3, high_watermark=5),
        deletion(new=2),
        [],
        "not known to have been there",
    ),
    "an election between ack and deletion leaves the loss unknown": (
        RecordBuilder()
        .led_by(1, epoch=0, at_ns=1)
        .acked(0, 1, 2, at=0)
        .led_by(2, epoch=1)
        .acked(3, 4, at=3)
        .final(3, 4, at=3)
        .end(log_start=3, high_watermark=5),
        deletion(new=3, epoch=1),
        [],
        "no earlier election had lost them",
    ),
    "acks=all of a later epoch surely stood": (of_a_later_epoch(-1), deletion(new=3, epoch=1), [], ""),
    "acks=1 of a later epoch did not surely stand": (
        of_a_later_epoch(1),
        deletion(new=3, epoch=1),
        [],
        "no earlier election had lost them",
    ),
    "what was sent after the answer was not deleted by it": (
        RecordBuilder()
        .led_by(1, epoch=0, at_ns=1)
        .acked(0, 1, 2, at=0, sent_ns=20, done_ns=30)
        .acked(3, at=3)
        .final(3, at=3)
        .end(high_watermark=4),
        deletion(new=3, answered_ns=10),
        [0, 1, 2],
        "",
    ),
    "deleted records are not lost where the log start went back without them": (
        RecordBuilder()
        .led_by(1, epoch=0)
        .acked(0, 1, 2, 3, at=0)
        .read(0, 1, at=0)
        .final(3, at=3)
        .end(log_start=0, high_watermark=4),
        deletion(new=3),
        [],
        "",
    ),
}
"""Records, the step of each, the values that are lost, and why it is not known whether more are."""

PASSED_BY: dict[tuple[int, int], set[str]] = {(0, 3): set(), (0, 6): {"unseen"}, (3, 6): {"unseen", "poll-skip"}}
"""Where the final log starts, and where a consumer goes on after offset 0: what it surely passed by."""


def with_step(builder: RecordBuilder, step: StepEntry) -> Make:
    def make(folder: Path) -> Record:
        record = record_of(lambda: builder)(folder)
        write_steps(RecordFolder(folder), [step])
        return record

    return make


RECORDS: dict[object, Make] = {name: with_step(builder, step) for name, (builder, step, _, _) in LOST.items()}
RECORDS |= {places: with_step(passed_by(*places), deletion(new=3)) for places in PASSED_BY}


@pytest.mark.spark
@pytest.mark.parametrize("name", LOST)
def test_what_was_deleted_is_lost_or_unknown_as_it_says(found: Mapping[object, Reconciliation], name: str) -> None:
    _, _, lost, why = LOST[name]
    assert lost_values(found[name]) == lost
    assert {one.kind for one in found[name].anomalies} <= {"lost"}
    assert ("lost" in found[name].unknown) == bool(why)
    assert why in found[name].unknown.get("lost", "")


@pytest.mark.spark
@pytest.mark.parametrize("places", PASSED_BY)
def test_a_consumer_may_pass_by_what_was_deleted_and_came_back(
    found: Mapping[object, Reconciliation], places: tuple[int, int]
) -> None:
    assert {one.kind for one in found[places].anomalies} == PASSED_BY[places]
    unknown = {"unseen", "poll-skip"} & found[places].unknown.keys()
    assert unknown == ({"unseen", "poll-skip"} if places[0] < 3 else set())
