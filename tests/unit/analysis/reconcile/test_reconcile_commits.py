"""The counting rules of lost commits: cases for and against, and when they cannot tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from reconcile_cases import Case, Expected, items_of, reconcile_cases
from records import RecordBuilder, as_record

from analysis.items import reconcile
from analysis.reconcile.model import LostCommits, Reconciliation

pytestmark = pytest.mark.spark

KINDS = {"commit-lost", "commit-back"}

CASES: dict[str, tuple[Case, Expected]] = {
    "a group that has nothing any more lost its newest commit": (
        lambda b: b.commit(1, 10).commit(2, 20).answer(None, None),
        {"commit-lost": [(20, None)]},
    ),
    "a group that has an older commit lost the newer one": (
        lambda b: b.commit(1, 10).commit(2, 20).answer(1, 10).answer(1, 10),
        {"commit-lost": [(20, None)]},
    ),
    "a member that sets its group back loses nothing": (lambda b: b.commit(1, 20).commit(2, 10).answer(2, 10), {}),
    "a set back that was lost gives back a higher offset": (
        lambda b: b.commit(1, 20).commit(2, 10).answer(1, 20),
        {"commit-lost": [(10, None)]},
    ),
    "what was served and is served no more went back": (
        lambda b: b.commit(1, 10).answer(1, 10).answer(None, None),
        {"commit-lost": [(10, None)], "commit-back": [(10, None)]},
    ),
    "a commit without an outcome is not lost, but goes back once it was served": (
        lambda b: b.commit(1, 10).commit(2, 20, status="unknown").answer(1, 10).answer(2, 20).answer(1, 10),
        {"commit-back": [(20, None)]},
    ),
    "a commit without an outcome explains an offset, however late": (
        lambda b: b.commit(1, 10, status="unknown", done_ns=None).commit(2, 20).answer(2, 20).answer(1, 10),
        {},
    ),
    "a commit that was still under way explains an offset": (
        lambda b: b.commit(1, 10, asked_ns=1, done_ns=50).commit(2, 20, asked_ns=40, done_ns=45).answer(1, 10),
        {},
    ),
    "a commit of nobody that is known is no evidence": (
        lambda b: b.commit(1, 10).commit(2, 20).answer(None, 10).answer(99, 5),
        {},
    ),
    "a commit that comes back was not lost": (
        lambda b: b.commit(1, 10).commit(2, 20).answer(1, 10).answer(2, 20),
        {},
    ),
    "a commit that was replaced before anybody asked was lost to nobody": (
        lambda b: b.commit(1, 10).commit(2, 20).commit(3, 30).answer(3, 30),
        {},
    ),
    "what a broker says that does not lead is no evidence": (
        lambda b: b.commit(1, 10).commit(2, 20).answer(1, 10, broker=2),
        {},
    ),
    "a coordinator whose HW nobody had seen yet lost nothing, but what it served went back": (
        lambda b: b.commit(1, 10).commit(2, 20).answer(2, 20).answer(1, 10, broker=3, asked_ns=50_003, done_ns=50_004),
        {"commit-back": [(20, None)]},
    ),
    "what a coordinator whose HW nobody had seen served was maybe never committed": (
        lambda b: (
            b.commit(1, 10)
            .commit(2, 20, status="unknown")
            .answer(2, 20, broker=3, asked_ns=50_002, done_ns=50_003)
            .answer(1, 10, broker=3, asked_ns=50_007, done_ns=50_008)
        ),
        {"commit-back": [(20, None)]},
    ),
    "a coordinator that had answered one question for its HW may have told an old one": (
        lambda b: b.commit(1, 10).commit(2, 20).answer(1, 10, broker=3, asked_ns=50_004, done_ns=50_005),
        {},
    ),
    "a coordinator that had answered two questions for its HW is settled": (
        lambda b: b.commit(1, 10).commit(2, 20).answer(1, 10, broker=3, asked_ns=50_007, done_ns=50_008),
        {"commit-lost": [(20, None)]},
    ),
    "a question that was asked before the ack is no evidence": (
        lambda b: b.commit(1, 10, asked_ns=1, done_ns=50).answer(None, None, asked_ns=50, done_ns=60),
        {},
    ),
    "groups and partitions are apart": (
        lambda b: (
            b.commit(1, 10)
            .answer(None, None, group="h")
            .acked(2, at=0, partition=1)
            .final(2, at=0, partition=1)
            .answer(None, None, partition=1)
        ),
        {},
    ),
}


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Reconciliation:
    def with_a_record(build: Case) -> Case:
        return lambda b: build(b.acked(1, at=0).final(1, at=0))

    builder = RecordBuilder().coordinated_by(1).coordinated_by(3, epoch=1, at_ns=50_000)
    cases = {name: (with_a_record(build), expected) for name, (build, expected) in CASES.items()}
    return reconcile_cases(spark, tmp_path_factory.mktemp("commits"), builder, cases)


@pytest.mark.parametrize("number", range(len(CASES)), ids=list(CASES))
def test_a_case_has_exactly_these_items(found: Reconciliation, number: int) -> None:
    assert items_of(found, number) == list(CASES.values())[number][1]


def test_the_judge_gets_every_lost_commit_with_its_times(found: Reconciliation) -> None:
    counted = sum(one.count for one in found.anomalies if one.kind in KINDS)
    assert sum(one.count for one in found.groups_of(LostCommits)) == counted > 0
    first = next(one for one in found.groups_of(LostCommits) if one.topic == "case-0")
    assert (first.kind, first.group, first.first) == ("commit-lost", "g", first.last)
    assert (first.first.commit, first.first.offset, first.first.served_offset, first.first.broker) == (2, 20, None, 1)
    assert first.first.sent_ns < first.first.at_ns < first.first.asked_ns
    assert found.acked_commits == sum(
        sum(row["status"] == "acked" for row in _rows_of(build)) for build, _ in CASES.values()
    )
    assert not KINDS & found.unknown.keys()


def test_a_commit_that_went_back_is_settled_only_if_both_answers_are(found: Reconciliation) -> None:
    settled = {
        name: {
            one.settled
            for one in found.groups_of(LostCommits)
            if (one.topic, one.kind) == (f"case-{number}", "commit-back")
        }
        for number, name in enumerate(CASES)
    }
    assert settled["what was served and is served no more went back"] == {True}
    assert settled["what a coordinator whose HW nobody had seen served was maybe never committed"] == {False}


def _rows_of(build: Case) -> list[dict[str, str]]:
    builder = RecordBuilder()
    build(builder)
    return builder.tables["commits"]


def _base() -> RecordBuilder:
    return RecordBuilder().acked(1, at=0).final(1, at=0).commit(1, 10)


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda: _base().answer(None, None), "the metadata log has no __consumer_offsets-0"),
        (lambda: _base().coordinated_by(1), "no coordinator was asked"),
        (
            lambda: _base().led_by(1, epoch=0, topic="__consumer_offsets").answer(None, None),
            "no leader was asked for its HW of __consumer_offsets",
        ),
        (
            lambda: _base().coordinated_by(1).not_in_final_read().answer(None, None),
            "the final read does not cover t-0",
        ),
    ],
)
def test_without_evidence_both_kinds_are_unknown_and_nothing_is_found(
    spark: SparkSession, tmp_path: Path, build: Callable[[], RecordBuilder], why: str
) -> None:
    builder = build()
    found = reconcile(spark, as_record(builder.write(tmp_path / "run"), builder.manifest()))
    assert all(found.unknown[kind].startswith(why) for kind in KINDS)
    assert not [one for one in found.anomalies if one.kind in KINDS]


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda b: b.commit(1, 10).answer(1, 10), None),
        (lambda b: b.answer(None, None).commit(1, 10), "no coordinator showed what it had for t-0 of the group g"),
        # A commit without a number of this run: whether the group got back its own is not known.
        (lambda b: b.commit(1, 10).answer(None, 10), "no coordinator showed what it had for t-0 of the group g"),
        (lambda b: b.commit(1, 10).answer(1, 10, broker=2), "no coordinator showed what it had for t-0 of the group g"),
        (
            lambda b: (
                b.commit(1, 10)
                .led_by(2, epoch=7, at_ns=90_000, topic="__consumer_offsets")
                .answer(1, 10, broker=2, asked_ns=90_001, done_ns=90_002)
            ),
            "the last coordinator of the group g was not seen to serve its HW",
        ),
    ],
)
def test_a_newest_commit_that_nobody_asked_for_proves_nothing(
    spark: SparkSession, tmp_path: Path, build: Case, why: str | None
) -> None:
    builder = RecordBuilder().acked(1, at=0).final(1, at=0).coordinated_by(1)
    build(builder)
    found = reconcile(spark, as_record(builder.write(tmp_path / "run"), builder.manifest()))
    assert not [one for one in found.anomalies if one.kind in KINDS]
    assert (found.unchecked_commits or "none").startswith(why or "none")


@pytest.mark.parametrize(
    "scenario",
    [
        '[topics.__consumer_offsets]\nconfig = { "cleanup.policy" = "delete" }\n',
        '[[steps]]\nstep = "set-config"\nresource = "topic:__consumer_offsets"\nconfig = "cleanup.policy"\n',
    ],
)
def test_a_topic_of_offsets_that_is_not_compacted_is_not_judged(
    spark: SparkSession, tmp_path: Path, scenario: str
) -> None:
    builder = _base().coordinated_by(1).answer(None, None)
    record = builder.write(tmp_path / "run")
    (record / "scenario.toml").write_text(scenario)
    found = reconcile(spark, as_record(record, builder.manifest()))
    assert all("cleanup.policy of __consumer_offsets" in found.unknown[kind] for kind in KINDS)


def test_offsets_that_may_expire_are_not_judged(spark: SparkSession, tmp_path: Path) -> None:
    builder = _base().coordinated_by(1).answer(None, None)
    record = builder.write(tmp_path / "run")
    (record / "scenario.toml").write_text('[cluster.broker_properties]\n"offsets.retention.minutes" = "1"\n')
    found = reconcile(spark, as_record(record, builder.manifest()))
    assert all("offsets.retention.minutes" in found.unknown[kind] for kind in KINDS)
    assert not [one for one in found.anomalies if one.kind in KINDS]


def test_a_record_without_commits_leaves_nothing_unknown(spark: SparkSession, tmp_path: Path) -> None:
    builder = RecordBuilder().acked(1, at=0).final(1, at=0)
    assert not KINDS & reconcile(spark, as_record(builder.write(tmp_path / "run"), builder.manifest())).unknown.keys()
