"""What the judge gets of lost commits, and when nobody can tell of any."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from anomaly_kinds import commit_back, commit_lost
from reconcile_cases import Case, build_cases
from reconcile_oracle_commits import committed, coordinated
from reconcile_planted import by_topic, run_with_commits_of_what_nobody_read
from reconcile_together import Make, record_of
from records import RecordBuilder

from analysis.reconcile.model import LostCommits, Reconciliation

pytestmark = pytest.mark.spark

KINDS = {"commit-lost", "commit-back"}

CASES = {**commit_lost.CASES[coordinated], **commit_back.CASES[coordinated]}


NOBODY_SHOWED = "no coordinator showed what it had for t-0 of the group g"
NEWEST: dict[str, tuple[Case, str]] = {
    "asked": (lambda b: b.commit(1, 10).answer(1, 10), "none"),
    "asked too early": (lambda b: b.answer(None, None).commit(1, 10), NOBODY_SHOWED),
    # A commit without a number of this run: whether the group got back its own is not known.
    "without a number": (lambda b: b.commit(1, 10).answer(None, 10), NOBODY_SHOWED),
    "of another broker": (lambda b: b.commit(1, 10).answer(1, 10, broker=2), NOBODY_SHOWED),
    "before its HW": (
        lambda b: (
            b.commit(1, 10)
            .led_by(2, epoch=7, at_ns=90_000, topic="__consumer_offsets")
            .answer(1, 10, broker=2, asked_ns=90_001, done_ns=90_002)
        ),
        "the last coordinator of the group g was not seen to serve its HW",
    ),
}
"""Commits and answers, and how the reason begins why the newest commit was not checked."""

NOT_COMPACTED = (
    '[topics.__consumer_offsets]\nconfig = { "cleanup.policy" = "delete" }\n',
    '[[steps]]\nstep = "set-config"\nresource = "topic:__consumer_offsets"\nconfig = "cleanup.policy"\n',
)
EXPIRE = '[cluster.broker_properties]\n"offsets.retention.minutes" = "1"\n'


def lost_commit() -> RecordBuilder:
    return committed().coordinated_by(1).answer(None, None)


def newest(build: Case) -> Make:
    def built() -> RecordBuilder:
        builder = RecordBuilder().acked(1, at=0).final(1, at=0).coordinated_by(1)
        build(builder)
        return builder

    return record_of(built)


RECORDS = {
    "cases": record_of(lambda: build_cases(coordinated, [build for build, _ in CASES.values()])),
    "offsets expire": record_of(lost_commit, EXPIRE),
    "without commits": record_of(lambda: RecordBuilder().acked(1, at=0).final(1, at=0)),
    "of what nobody read": record_of(lambda: run_with_commits_of_what_nobody_read()[0]),
    **{name: newest(build) for name, (build, _) in NEWEST.items()},
    **{scenario: record_of(lost_commit, scenario) for scenario in NOT_COMPACTED},
}


def test_the_judge_gets_every_lost_commit_with_its_times(found: Mapping[str, Reconciliation]) -> None:
    cases = found["cases"]
    counted = sum(one.count for one in cases.anomalies if one.kind in KINDS)
    assert sum(one.count for one in cases.groups_of(LostCommits)) == counted > 0
    first = next(one for one in cases.groups_of(LostCommits) if one.topic == "case-0")
    assert (first.kind, first.group, first.first) == ("commit-lost", "g", first.last)
    assert (first.first.commit, first.first.offset, first.first.served_offset, first.first.broker) == (2, 20, None, 1)
    assert first.first.sent_ns < first.first.at_ns < first.first.asked_ns
    assert cases.acked_commits == sum(
        sum(row["status"] == "acked" for row in _rows_of(build)) for build, _ in CASES.values()
    )
    assert not KINDS & cases.unknown.keys()


def test_a_commit_that_went_back_is_settled_only_if_both_answers_are(found: Mapping[str, Reconciliation]) -> None:
    settled = {
        name: {
            one.settled
            for one in found["cases"].groups_of(LostCommits)
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


@pytest.mark.parametrize("name", NEWEST)
def test_a_newest_commit_that_nobody_asked_for_proves_nothing(found: Mapping[str, Reconciliation], name: str) -> None:
    _, why = NEWEST[name]
    assert not [one for one in found[name].anomalies if one.kind in KINDS]
    assert (found[name].unchecked_commits or "none").startswith(why)


@pytest.mark.parametrize("scenario", NOT_COMPACTED)
def test_a_topic_of_offsets_that_is_not_compacted_is_not_judged(
    found: Mapping[str, Reconciliation], scenario: str
) -> None:
    assert all("cleanup.policy of __consumer_offsets" in found[scenario].unknown[kind] for kind in KINDS)


def test_offsets_that_may_expire_are_not_judged(found: Mapping[str, Reconciliation]) -> None:
    expires = found["offsets expire"]
    assert all("offsets.retention.minutes" in expires.unknown[kind] for kind in KINDS)
    assert not [one for one in expires.anomalies if one.kind in KINDS]


def test_a_record_without_commits_leaves_nothing_unknown(found: Mapping[str, Reconciliation]) -> None:
    assert not KINDS & found["without commits"].unknown.keys()


def test_a_lost_commit_of_a_partition_that_nobody_read_is_no_item(found: Mapping[str, Reconciliation]) -> None:
    unread = found["of what nobody read"]
    assert by_topic(unread) == run_with_commits_of_what_nobody_read()[1]
    assert unread.unknown["commit-lost"] == "the final read does not cover unread-9, so its topic may have been deleted"
