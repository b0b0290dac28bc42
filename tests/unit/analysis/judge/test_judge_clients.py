"""The clauses on what clients are promised: no aborted read, no duplicate of an idempotent producer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from judge_records import Story, by_name

from analysis.reconcile.model import AbortedReads, Duplicates
from ebbtide.record.manifest import FinalOffsets, ProducerSetup
from ebbtide.record.verdict import AnomalyCount, Counts, Verdict

ABORTED = "no-aborted-read"
TWICE = "no-duplicate-of-an-idempotent-producer"


def healthy_story(record: Path, *, idempotent: bool = True, transactional: bool = False) -> Story:
    record.mkdir(exist_ok=True)
    story = Story(record)
    story.state(1)
    story.predict('loss = { committed = "none", uncommitted = "none" }')
    story.change(
        producers={"1": ProducerSetup(acks=-1, idempotent=idempotent, transactional=transactional)},
        final_offsets={"t-0": FinalOffsets(log_start=0, high_watermark=1000)},
    )
    return story


def judge_duplicates(story: Story, *duplicates: Duplicates) -> Verdict:
    """The verdict on these duplicates, of which no example is shown: a rule must not need one."""
    story.duplicates += duplicates
    count = sum(one.count for one in duplicates)
    story.anomalies.append(AnomalyCount(kind="duplicate", topic="t", partition=0, count=count))
    return story.judge()


def duplicates_of(
    *, standing: int = 2, idempotent: bool = True, unreadable: int = 0, count: int = 1, stood: int | None = None
) -> Duplicates:
    places = [{"topic": "t", "partition": 0, "offset": offset} for offset in (10, 20)]
    first = {"offset": 10, "value": 7, "places": places, "idempotent": idempotent}
    first |= {"standing": standing, "unreadable": unreadable} | ({} if stood is None else {"stood": stood})
    return Duplicates(
        kind="duplicate",
        topic="t",
        partition=0,
        idempotent=idempotent,
        twice_in_final_log=standing > 1,
        unreadable=unreadable > 0,
        count=count,
        first=first,
    )


def evidence(verdict: Verdict, name: str) -> Any:
    return next(one.evidence for one in verdict.properties if one.name == name)


def test_nothing_found_with_such_producers_holds(tmp_path: Path) -> None:
    verdict = healthy_story(tmp_path, transactional=True).judge()
    assert (by_name(verdict)[ABORTED], by_name(verdict)[TWICE]) == ("holds", "holds")
    assert verdict.outcome == "as-predicted", verdict.why


def test_without_such_producers_neither_is_exercised(tmp_path: Path) -> None:
    story = healthy_story(tmp_path, idempotent=False)
    story.unknown = {"aborted-read": "no polls", "duplicate": "no polls"}
    verdict = story.judge()
    assert (by_name(verdict)[ABORTED], by_name(verdict)[TWICE]) == ("not-exercised", "not-exercised")


def test_a_kind_that_is_unknown_leaves_its_clause_unknown(tmp_path: Path) -> None:
    story = healthy_story(tmp_path, transactional=True)
    story.unknown = {"aborted-read": "no polls", "duplicate": "no polls"}
    verdict = story.judge()
    assert (by_name(verdict)[ABORTED], by_name(verdict)[TWICE]) == ("unknown", "unknown")
    assert evidence(verdict, TWICE) == [{"why": "no polls"}]
    assert verdict.outcome == "inconclusive"


def test_an_aborted_read_is_a_violation_by_itself(tmp_path: Path) -> None:
    story = healthy_story(tmp_path, transactional=True)
    first = {"offset": 10, "value": 7}
    story.aborted_reads = [
        AbortedReads(kind="aborted-read", topic="t", partition=at, count=45, first=first) for at in (0, 1)
    ]
    verdict = story.judge()
    assert by_name(verdict)[ABORTED] == "violated"
    assert evidence(verdict, ABORTED)[0] == {"topic": "t", "partition": 0, "count": 45, "offset": 10, "value": 7}
    assert verdict.outcome == "contradicted"
    assert any("no-aborted-read (90 cases, first: t-0)" in why for why in verdict.why), verdict.why


def test_it_is_unknown_if_an_election_may_have_cost_the_marker(tmp_path: Path) -> None:
    story = healthy_story(tmp_path, transactional=True)
    story.state(19, leader=2, isr=[2], leader_recovery_state=1)
    story.aborted_reads = [
        AbortedReads(kind="aborted-read", topic="t", partition=0, count=45, first={"offset": 10, "value": 7})
    ]
    verdict = story.judge()
    assert by_name(verdict)[ABORTED] == "unknown"
    assert "an election outside ISR and ELR may have cost a marker" in evidence(verdict, ABORTED)[0]["why"]


def test_sends_that_failed_for_certain_exercise_it_too(tmp_path: Path) -> None:
    story = healthy_story(tmp_path)
    story.counts = Counts(sends=1000, acked=999, failed=1, polls=2000)
    assert by_name(story.judge())[ABORTED] == "holds"


def test_a_value_that_stands_twice_is_a_violation_by_itself(tmp_path: Path) -> None:
    verdict = judge_duplicates(
        healthy_story(tmp_path), duplicates_of(idempotent=False, count=40), duplicates_of(count=3)
    )
    assert by_name(verdict)[TWICE] == "violated"
    (row,) = evidence(verdict, TWICE)
    assert (row["count"], row["offset"], row["value"]) == (3, 10, 7)
    assert verdict.outcome == "contradicted"
    assert any(f"{TWICE} (3 cases, first: t-0)" in why for why in verdict.why), verdict.why


def test_a_duplicate_of_a_producer_without_idempotence_is_none(tmp_path: Path) -> None:
    verdict = judge_duplicates(
        healthy_story(tmp_path),
        duplicates_of(idempotent=False, count=1_000),
        duplicates_of(idempotent=False, unreadable=1),
    )
    assert by_name(verdict)[TWICE] == "holds"
    assert verdict.outcome == "as-predicted", verdict.why


def test_a_value_whose_first_place_was_cut_off_was_written_once(tmp_path: Path) -> None:
    assert by_name(judge_duplicates(healthy_story(tmp_path), duplicates_of(standing=1, count=30)))[TWICE] == "holds"


def test_a_place_that_cannot_be_read_leaves_it_unknown(tmp_path: Path) -> None:
    below = judge_duplicates(healthy_story(tmp_path / "below"), duplicates_of(standing=1, unreadable=1))
    assert by_name(below)[TWICE] == "unknown"
    assert evidence(below, TWICE)[0]["why"].startswith("a duplicate was at a place where nothing can be read")
    story = healthy_story(tmp_path / "unread")
    story.unknown = {"vanished": "there was no final read"}
    assert by_name(judge_duplicates(story, duplicates_of(standing=0)))[TWICE] == "unknown"


def test_places_that_are_not_listed_are_judged_as_those_that_are(tmp_path: Path) -> None:
    cut_off = judge_duplicates(healthy_story(tmp_path / "cut-off"), duplicates_of(standing=1, stood=3_000))
    assert by_name(cut_off)[TWICE] == "holds"
    below = judge_duplicates(
        healthy_story(tmp_path / "below"), duplicates_of(standing=1, unreadable=2_000, stood=3_000)
    )
    assert by_name(below)[TWICE] == "unknown"
    assert evidence(below, TWICE)[0]["why"].startswith("a duplicate was at 2,000 places where nothing can be read")


def test_many_duplicates_at_such_places_are_one_row_that_counts_them(tmp_path: Path) -> None:
    verdict = judge_duplicates(healthy_story(tmp_path), duplicates_of(standing=1, unreadable=1, count=45))
    assert by_name(verdict)[TWICE] == "unknown"
    (row,) = evidence(verdict, TWICE)
    assert row["count"] == 45
    assert row["why"].startswith("45 duplicates, the first of them was at a place where nothing can be read")
