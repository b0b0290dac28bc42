"""The rules of copiers: cases for and against, and when they cannot tell."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from reconcile_cases import Case, Expected, items_of, reconcile_builders, reconcile_cases
from records import RecordBuilder

from analysis.reconcile.model import Reconciliation, WrongCopies

pytestmark = pytest.mark.spark

TWICE, SKIPPED = "copied-twice", "input-skipped"


def _inputs(b: RecordBuilder, *values: int) -> RecordBuilder:
    """Inputs from offset 0 on, which the final read and a read_committed consumer got."""
    b.acked(*values, at=0).final(*values, at=0, leader_epoch=0)
    return b.read(*values, at=0, isolation="read_committed", leader_epoch=0)


def _copy(
    b: RecordBuilder, value: int, *, of: int, outcome: str = "committed", group: str = "copiers"
) -> RecordBuilder:
    """A copy that the final read got, at an offset of partition 1 that is its value."""
    b.copy(value, of=of, group=group).send(value, at=value, partition=1, txn=1, txn_outcome=outcome)
    return b.final(value, at=value, partition=1)


def _shown(b: RecordBuilder, value: int) -> RecordBuilder:
    return b.read(value, at=value, partition=1, isolation="read_committed", session=value)


CASES: dict[str, tuple[Case, Expected]] = {
    "each input has one copy": (
        lambda b: _copy(_copy(_inputs(b, 1, 2), 11, of=0), 12, of=1).answer(None, 2, group="copiers"),
        {},
    ),
    "two committed copies of one input in the final log": (
        lambda b: _copy(_copy(_inputs(b, 1), 11, of=0), 12, of=0).answer(None, 1, group="copiers"),
        {TWICE: [(0, 11)]},
    ),
    "a copy in doubt that a read_committed consumer got is committed": (
        lambda b: _shown(
            _copy(_copy(_inputs(b, 1), 11, of=0), 12, of=0, outcome="unknown"), 12
        ).answer(None, 1, group="copiers"),
        {TWICE: [(0, 11)]},
    ),
    "a copy in doubt that none of them got proves nothing": (
        lambda b: _copy(_copy(_inputs(b, 1), 11, of=0), 12, of=0, outcome="unknown").answer(None, 1, group="copiers"),
        {},
    ),
    "an aborted copy is no copy": (
        lambda b: _copy(_copy(_inputs(b, 1), 11, of=0), 12, of=0, outcome="aborted").answer(None, 1, group="copiers"),
        {},
    ),
    "each group has a copy of its own": (
        lambda b: _copy(_copy(_inputs(b, 1), 11, of=0), 12, of=0, group="others").answer(None, 1, group="copiers"),
        {},
    ),
    "an offset was committed beyond an input that nobody copied": (
        lambda b: _copy(_inputs(b, 1, 2), 12, of=1).answer(None, 2, group="copiers"),
        {SKIPPED: [(0, 1)]},
    ),
    "an input whose only copy is aborted is skipped": (
        lambda b: _copy(_inputs(b, 1), 11, of=0, outcome="aborted").answer(None, 1, group="copiers"),
        {SKIPPED: [(0, 1)]},
    ),
    "an offset that a coordinator showed once counts, also if it went back": (
        lambda b: _copy(_inputs(b, 1), 11, of=0, outcome="aborted").answer(None, 1, group="copiers").answer(
            None, 0, group="copiers"
        ),
        {SKIPPED: [(0, 1)]},
    ),
    "an input at the committed offset is not due yet": (
        lambda b: _copy(_inputs(b, 1, 2), 11, of=0).answer(None, 1, group="copiers"),
        {},
    ),
    "an input of an aborted transaction may be skipped": (
        lambda b: (
            _copy(b.send(1, at=0, txn=3, txn_outcome="aborted").final(1, at=0), 12, of=1)
            .acked(2, at=1)
            .final(2, at=1)
            .answer(None, 2, group="copiers")
        ),
        {},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Reconciliation:
    builder = RecordBuilder().producer(1, transactional=True).transactions(one="CompleteCommit").coordinated_by(1)
    return reconcile_cases(spark, tmp_path_factory.mktemp("copies"), builder, CASES)


@pytest.mark.parametrize("number", range(len(CASES)), ids=list(CASES))
def test_a_case_has_exactly_these_items(found: Reconciliation, number: int) -> None:
    items = items_of(found, number)
    expected = list(CASES.values())[number][1]
    assert {kind: items.get(kind) for kind in (TWICE, SKIPPED)} == {
        kind: expected.get(kind) for kind in (TWICE, SKIPPED)
    }


def test_the_judge_gets_the_input_and_its_copies(found: Reconciliation) -> None:
    one = next(one for one in found.groups_of(WrongCopies) if one.kind == TWICE)
    assert (one.group, one.partition, one.count) == ("copiers", 0, 1)
    assert (one.first["offset"], one.first["copies"], one.first["copied_to"]) == (0, 2, one.topic)
    assert len(one.first["values"]) == 2
    skipped = next(one for one in found.groups_of(WrongCopies) if one.kind == SKIPPED)
    assert (skipped.first["group"], skipped.first["committed"]) == ("copiers", 2)


def _base() -> RecordBuilder:
    builder = RecordBuilder().producer(1, transactional=True).transactions(one="CompleteCommit").coordinated_by(1)
    return _shown(_copy(_inputs(builder, 1, 2), 12, of=1), 12)


def _interrupted() -> RecordBuilder:
    builder = _answered()
    builder.status = "interrupted"
    return builder


def _answered() -> RecordBuilder:
    return _base().answer(None, 2, group="copiers")


IN_DOUBT = {
    "reached": lambda: _copy(_base(), 13, of=1, outcome="unknown").answer(None, 2, group="copiers"),
    "before the first that one got": lambda: _copy(_base(), 11, of=1, outcome="unknown").answer(
        None, 2, group="copiers"
    ),
}
"""Copies in doubt that no read_committed consumer reached, or only one that began behind them."""

UNKNOWN: dict[str, tuple[Callable[[], RecordBuilder], str]] = {
    "nobody asked": (_base, "no coordinator was asked what the group copiers has committed for t-0"),
    "interrupted": (_interrupted, "the run is not complete: a copy may have no row"),
    "compacted": (lambda: _answered().compacted(), "records of t may be deleted, or compacted"),
    "deleted": (
        lambda: _answered().end(partition=1, log_start=3, high_watermark=13),
        "records of t may be deleted, or compacted",
    ),
    "not read": (lambda: _answered().not_in_final_read(), "the final read does not cover t-0"),
}


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reconciliation]:
    """Each of these records, and `whole`: one whose copies were read to the end, and `none` without any."""
    builders = {name: build() for name, build in IN_DOUBT.items()}
    builders |= {name: build() for name, (build, _) in UNKNOWN.items()}
    builders |= {"whole": _answered(), "none": RecordBuilder().acked(1, at=0).final(1, at=0)}
    return dict(
        zip(builders, reconcile_builders(spark, tmp_path_factory.mktemp("each"), builders.values()), strict=True)
    )


def test_a_run_whose_copies_were_read_to_the_end_is_judged(judged: dict[str, Reconciliation]) -> None:
    assert {TWICE, SKIPPED}.isdisjoint(judged["whole"].unknown)
    assert [(one.kind, one.count) for one in judged["whole"].groups_of(WrongCopies)] == [(SKIPPED, 1)]


@pytest.mark.parametrize("name", UNKNOWN)
def test_inputs_that_may_be_copied_are_unknown_and_never_items(judged: dict[str, Reconciliation], name: str) -> None:
    assert judged[name].unknown[SKIPPED].startswith(UNKNOWN[name][1])
    assert not judged[name].groups_of(WrongCopies)


@pytest.mark.parametrize("name", IN_DOUBT)
def test_copies_in_doubt_that_no_read_committed_consumer_reached_are_unknown(
    judged: dict[str, Reconciliation], name: str
) -> None:
    assert judged[name].unknown[TWICE].startswith("no read_committed consumer read all of t-1")
    assert not [one for one in judged[name].groups_of(WrongCopies) if one.kind == TWICE]


def test_a_record_without_copies_has_nothing_to_judge(judged: dict[str, Reconciliation]) -> None:
    assert {TWICE, SKIPPED}.isdisjoint(judged["none"].unknown)
