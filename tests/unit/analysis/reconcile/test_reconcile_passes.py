"""What groups pass over: cases for and against, and when nobody can tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from reconcile_cases import Case, Expected, items_of, reconcile_cases
from records import RecordBuilder, as_record

from analysis.items import reconcile
from analysis.reconcile.model import Reconciliation
from analysis.rows.questions import PASSED_OVER
from analysis.rows.runs import run_files
from analysis.rows.summing import sum_up

pytestmark = pytest.mark.spark

KIND = "passed-over"
COLUMNS = {"leader_epoch": 0}


def _log(b: RecordBuilder, *, partition: int = 0, **columns: object) -> RecordBuilder:
    """Six records, acked and in the final log."""
    values = range(10 * partition + 1, 10 * partition + 7)
    b.acked(*values, at=0, partition=partition, **columns)
    return b.final(*values, at=0, partition=partition, **COLUMNS)


def _reads(
    b: RecordBuilder, begin: int, end: int, *, member: int, session: int = 1, partition: int = 0, **columns: object
) -> RecordBuilder:
    """A member gets the records from offset `begin` to `end`, the last one included."""
    values = range(10 * partition + begin + 1, 10 * partition + end + 2)
    more = {"consumer": member, "session": session, "partition": partition, **COLUMNS, **columns}
    return b.read(*values, at=begin, **more)


def _group(b: RecordBuilder, first: int, *more: int) -> RecordBuilder:
    """A group of these members; all of them had partition 0 from the beginning."""
    b.group(f"group of {first}", first, *more)
    for member in (first, *more):
        b.assigned(member, 0)
    return b


def _late_partition(b: RecordBuilder, member: int) -> RecordBuilder:
    """A group at `latest` begins with partition 0, and finds partition 1 after it has records."""
    _log(_group(b, member).reset(member, 0), partition=1)
    b.assigned(member, 0, event="revoked").assigned(member, 0, 1).reset(member, 4, partition=1)
    return _reads(b, 4, 5, member=member, session=2, partition=1)


CASES: dict[str, tuple[Case, Expected]] = {
    "a session goes on where another member's ended": (
        lambda b: _reads(_reads(_log(_group(b, 11, 12)), 0, 2, member=11), 3, 5, member=12),
        {},
    ),
    "a session begins above the end of the one before": (
        lambda b: _reads(_reads(_log(_group(b, 21, 22)), 0, 1, member=21), 4, 5, member=22),
        {KIND: [(2, 3), (3, 4)]},
    ),
    "what a third member reads later is not passed over": (
        lambda b: _reads(
            _reads(_reads(_log(_group(b, 31, 32, 33)), 0, 1, member=31), 4, 5, member=32), 2, 5, member=33
        ),
        {},
    ),
    "another group's read does not help": (
        lambda b: _reads(
            _reads(_reads(_log(_group(_group(b, 41), 42)), 0, 5, member=42), 0, 1, member=41),
            4, 5, member=41, session=2,
        ),
        {KIND: [(2, 3), (3, 4)]},
    ),
    "a consumer in no group passes over what it likes": (
        lambda b: _reads(_reads(_log(b), 0, 1, member=51), 4, 5, member=51, session=2),
        {},
    ),
    "a new group that begins at the end was promised nothing before": (
        lambda b: _reads(_log(_group(b, 61)).reset(61, 4), 4, 5, member=61),
        {},
    ),
    "a partition that a group finds late was sent while the group ran": (
        lambda b: _late_partition(b, 71),
        {KIND: [(0, 11), (1, 12), (2, 13), (3, 14)]},
    ),
    "a partition that had records before the group ran owes it only what it begins with": (
        lambda b: _reads(
            _log(b, partition=1).group("late", 81).assigned(81, 0).assigned(81, 0, event="revoked").assigned(81, 0, 1)
            .reset(81, 4, partition=1),
            4, 5, member=81, partition=1,
        ),
        {},
    ),
    "a reset leaves out what was acked before it, though nobody reads on": (
        lambda b: _reads(_log(_group(b, 91)), 0, 1, member=91).reset(91, 6),
        {KIND: [(2, 3), (3, 4), (4, 5), (5, 6)]},
    ),
    "a reset leaves out nothing that was acked after it": (
        lambda b: _log(_reads(_group(b, 101), 0, 1, member=101).reset(101, 6)),
        {},
    ),
    "a group that was set back reads the rest later": (
        lambda b: _reads(
            _reads(_reads(_log(_group(b, 111)), 0, 1, member=111), 4, 5, member=111, session=2),
            0, 1, member=111, session=3,
        ),
        {},
    ),
    "what lies within a session is a jump of that session": (
        lambda b: (
            _log(_group(b, 121))
            .read(1, at=0, consumer=121, leader_epoch=0)
            .read(6, at=5, consumer=121, prev_offset=0, leader_epoch=0)
        ),
        {"poll-skip": [(5, 6)], "unseen": [(1, None), (2, None), (3, None), (4, None)]},
    ),
    "an aborted transaction owes nobody its records": (
        lambda b: _reads(
            _reads(_log(_group(b, 131), txn=1, txn_outcome="aborted"), 0, 1, member=131), 4, 5, member=131, session=2
        ),
        {},
    ),
    "a committed transaction does": (
        lambda b: _reads(
            _reads(_log(_group(b, 141), txn=1, txn_outcome="committed"), 0, 1, member=141, isolation="read_committed"),
            4, 5, member=141, session=2, isolation="read_committed",
        ),
        {KIND: [(2, 3), (3, 4)]},
    ),
    "a record that was replaced is not the one that was acked": (
        lambda b: _reads(
            _reads(
                _group(b, 151).acked(1, 2, 7, 8, 5, 6, at=0).final(1, 2, 3, 4, 5, 6, at=0, leader_epoch=0),
                0, 1, member=151,
            ),
            4, 5, member=151, session=2,
        ),
        {},
    ),
    "a row above that was cut off proves nothing of what was below": (
        lambda b: (
            _reads(_log(_group(b, 161)), 0, 1, member=161)
            .read(98, 99, at=4, consumer=161, session=2, leader_epoch=7)
        ),
        {},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Reconciliation:
    return reconcile_cases(spark, tmp_path_factory.mktemp("passes"), RecordBuilder().coordinated_by(1), CASES)


@pytest.mark.parametrize("number", range(len(CASES)), ids=list(CASES))
def test_a_case_has_exactly_these_items(found: Reconciliation, number: int) -> None:
    expected, kinds = list(CASES.values())[number][1], (KIND, "poll-skip", "unseen")
    items = items_of(found, number)
    assert {kind: items.get(kind) for kind in kinds} == {kind: expected.get(kind) for kind in kinds}


def _passing() -> RecordBuilder:
    return _reads(_reads(_log(_group(RecordBuilder(), 1)), 0, 1, member=1), 4, 5, member=1, session=2)


@pytest.mark.parametrize(("missing", "asks"), [(0, False), (2, True)])
def test_the_rule_is_asked_only_if_a_group_left_something_out(tmp_path: Path, missing: int, asks: bool) -> None:
    begun = _reads(_log(_group(RecordBuilder(), 1, 2)), 0, 1, member=1)
    builder = _reads(begun, 2 + missing, 4, member=2)
    record = as_record(builder.write(tmp_path / "run"), builder.manifest())
    assert (PASSED_OVER in sum_up(run_files(record), 0, lambda: tmp_path).answers.possible) == asks


def _in_clock_that_went_back() -> RecordBuilder:
    return _passing().served(3, asked_ns=50, at_ns=60).served(3, asked_ns=20, at_ns=30)


def _interrupted() -> RecordBuilder:
    builder = _passing()
    builder.status = "interrupted"
    return builder


UNKNOWN: dict[str, tuple[Callable[[], RecordBuilder], str]] = {
    "the last owner got nothing": (
        lambda: _passing().assigned(1, 0),
        "the group group of 1 got nothing of t-0 after its last assignment, so where it stands is not known",
    ),
    "the log may have lacked them": (
        lambda: _reads(
            _reads(_group(RecordBuilder(), 1).acked(1, 2, 3, 4, 5, 6, at=0).end(log_start=4), 0, 1, member=1),
            4, 5, member=1, session=2,
        ).final(5, 6, at=4, leader_epoch=0),
        "the group group of 1 left out acked records of t-0 below the final log start: whether the log still had them "
        "is not known",
    ),
    "a clock was set back": (
        _in_clock_that_went_back,
        "the clock was set back, so the order of sessions and resets is not known",
    ),
    "the run is not complete": (
        _interrupted,
        "the run is not complete: what the final read did not reach is not known",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("build", "why"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_what_groups_passed_over_is_unknown_if(
    spark: SparkSession, tmp_path: Path, build: Callable[[], RecordBuilder], why: str
) -> None:
    builder = build()
    judged = reconcile(spark, as_record(builder.write(tmp_path / "run"), builder.manifest()))
    assert judged.unknown[KIND] == why


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("scenario.toml", "scenario.toml is missing or cannot be read, so which consumers are a group is not known"),
        ("clients", "clients is missing, so where resets moved a group is not known"),
    ],
)
def test_without_members_or_their_resets_it_is_unknown(
    spark: SparkSession, tmp_path: Path, name: str, why: str
) -> None:
    builder = _passing()
    record = builder.write(tmp_path / "run")
    (record / name).rename(tmp_path / "elsewhere")
    assert reconcile(spark, as_record(record, builder.manifest())).unknown[KIND] == why
    assert KIND not in reconcile(spark, as_record(_passing().write(tmp_path / "whole"), builder.manifest())).unknown
