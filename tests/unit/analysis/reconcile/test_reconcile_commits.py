"""What the judge gets of lost commits, and when nobody can tell of any."""

from __future__ import annotations

from pathlib import Path

import pytest
from anomaly_kinds import commit_back, commit_lost
from pyspark.sql import SparkSession
from reconcile_cases import Case, build_cases
from reconcile_oracle_commits import committed, coordinated
from records import RecordBuilder, as_record

from analysis.items import reconcile
from analysis.reconcile.model import LostCommits, Reconciliation

pytestmark = pytest.mark.spark

KINDS = {"commit-lost", "commit-back"}

CASES = {**commit_lost.CASES[coordinated], **commit_back.CASES[coordinated]}


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Reconciliation:
    builder = build_cases(coordinated, [build for build, _ in CASES.values()])
    return reconcile(spark, as_record(builder.write(tmp_path_factory.mktemp("commits") / "run"), builder.manifest()))


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
    builder = committed().coordinated_by(1).answer(None, None)
    record = builder.write(tmp_path / "run")
    (record / "scenario.toml").write_text(scenario)
    found = reconcile(spark, as_record(record, builder.manifest()))
    assert all("cleanup.policy of __consumer_offsets" in found.unknown[kind] for kind in KINDS)


def test_offsets_that_may_expire_are_not_judged(spark: SparkSession, tmp_path: Path) -> None:
    builder = committed().coordinated_by(1).answer(None, None)
    record = builder.write(tmp_path / "run")
    (record / "scenario.toml").write_text('[cluster.broker_properties]\n"offsets.retention.minutes" = "1"\n')
    found = reconcile(spark, as_record(record, builder.manifest()))
    assert all("offsets.retention.minutes" in found.unknown[kind] for kind in KINDS)
    assert not [one for one in found.anomalies if one.kind in KINDS]


def test_a_record_without_commits_leaves_nothing_unknown(spark: SparkSession, tmp_path: Path) -> None:
    builder = RecordBuilder().acked(1, at=0).final(1, at=0)
    assert not KINDS & reconcile(spark, as_record(builder.write(tmp_path / "run"), builder.manifest())).unknown.keys()
