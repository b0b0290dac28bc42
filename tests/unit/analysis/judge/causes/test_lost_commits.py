"""A lost commit is attributed to the election of __consumer_offsets that lost it."""

from __future__ import annotations

from pathlib import Path

import pytest
from coordinator_stories import OFFSETS, CoordinatorStory, healthy_coordinator, last_coordinator_standing
from judge_records import ELR_OFF, Story, by_name, whole_log

from ebbtide.record.verdict import Verdict

KEPT = "no-acked-commit-lost-unless-allowed"


def causes(verdict: Verdict) -> list[tuple[str, object]]:
    return [(one.cause, one.election and one.election.leader_epoch) for one in verdict.commits]


@pytest.mark.parametrize("kind", ["commit-lost", "commit-back"])
def test_a_commit_is_lost_by_the_election_of_the_last_coordinator_standing(tmp_path: Path, kind: str) -> None:
    story = last_coordinator_standing(tmp_path)
    story.lose_commit(acked_s=5, asked_s=25, epoch=2, kind=kind)
    verdict = story.judge()
    assert causes(verdict) == [("last-replica-standing", 2)]
    assert (verdict.commits[0].group, verdict.commits[0].topic, verdict.commits[0].offset) == ("g", "t", 50)
    assert by_name(verdict)[KEPT] == "holds"
    assert any("__consumer_offsets-0, 1 commit" in why for why in verdict.why)


def test_a_commit_of_which_only_the_lower_bound_was_kept_has_no_known_cause(tmp_path: Path) -> None:
    # Its offset is 20 to 29, and the log that led again ended at 25.
    story = last_coordinator_standing(tmp_path, end=25)
    story.lose_commit(acked_s=5, asked_s=25, epoch=2)
    verdict = story.judge()
    assert (verdict.commits, by_name(verdict)[KEPT]) == ([], "unknown")


def test_an_unclean_election_of_the_coordinator_is_the_cause(tmp_path: Path) -> None:
    story = CoordinatorStory(tmp_path, features=ELR_OFF)
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.coordinate(1)
    story.coordinate(2, isr=[1])
    story.mark(4, 1, 0, 20)
    story.mark(6, 1, 0, 30)
    story.step(8, "kill", 1)
    story.config(9, f"topic:{OFFSETS}", "unclean.leader.election.enable", "true")
    story.coordinate(10, leader=2, isr=[2], leader_recovery_state=1)
    story.mark(11, 2, 1, 10)
    story.mark(12, 2, 1, 10)
    story.lose_commit(acked_s=5, asked_s=13, epoch=1, broker=2)
    assert causes(story.judge()) == [("unclean-election", 1)]


def test_a_clean_failover_that_lost_a_commit_is_a_violation(tmp_path: Path) -> None:
    story = healthy_coordinator(tmp_path)
    story.step(8, "kill", 1)
    story.coordinate(10, leader=2, isr=[2, 3])
    story.mark(11, 2, 1, 10)
    story.mark(12, 2, 1, 10)
    story.lose_commit(acked_s=5, asked_s=13, epoch=1, broker=2)
    verdict = story.judge()
    assert (causes(verdict), by_name(verdict)[KEPT]) == ([("unexplained", 1)], "violated")
    assert verdict.outcome == "contradicted"
    assert any("1 group commit of __consumer_offsets-0 lost against the protocol" in why for why in verdict.why)


@pytest.mark.parametrize(("led_before", "found"), [(1, [("unexplained", None)]), (2, [])])
def test_a_coordinator_that_forgets_without_an_election_is_blamed_if_nobody_else_ever_led(
    tmp_path: Path, led_before: int, found: list[tuple[str, None]]
) -> None:
    story = CoordinatorStory(tmp_path, features=ELR_OFF)
    story.coordinate(1, leader=led_before)
    story.coordinate(2, leader=1)
    whole_log(story)
    story.lose_commit(acked_s=5, asked_s=13, epoch=1)
    assert causes(story.judge()) == found


def test_without_the_timeline_of_the_coordinator_the_cause_is_not_known(tmp_path: Path) -> None:
    story = CoordinatorStory(tmp_path, features=ELR_OFF)
    story.state(1)
    story.lose_commit(acked_s=5, asked_s=13, epoch=1)
    verdict = story.judge()
    assert (verdict.commits, by_name(verdict)[KEPT]) == ([], "unknown")


def test_a_record_without_commits_exercises_no_such_clause(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    assert by_name(story.judge())[KEPT] == "not-exercised"


@pytest.mark.parametrize(
    ("expected", "lost", "says"),
    [
        ("none", True, "predicted that every group gets back its acked commits, seen 1 lost"),
        ("some", False, "predicted a loss of acked commits, but none was lost: the run did not show it"),
    ],
)
def test_a_prediction_can_speak_of_lost_commits(tmp_path: Path, expected: str, lost: bool, says: str) -> None:
    story = last_coordinator_standing(tmp_path)
    if lost:
        story.lose_commit(acked_s=5, asked_s=25, epoch=2)
    story.predict(f'loss = {{ commits = "{expected}" }}')
    assert says in story.judge().why


def test_the_verdict_says_what_was_predicted_of_commits_and_how_many_were_lost(tmp_path: Path) -> None:
    story = last_coordinator_standing(tmp_path)
    story.lose_commit(acked_s=5, asked_s=25, epoch=2)
    story.acked_commits = 36
    story.predict('loss = { commits = "some", cause = "last-replica-standing" }')
    predicted, seen, *_ = story.judge().why[-3:]
    assert predicted.startswith("predicted: some loss of acked commits of groups, cause last-replica-standing")
    assert "of 36 acked commits of groups 1 was lost" in seen


@pytest.mark.parametrize(("cause", "outcome"), [("last-replica-standing", False), ("unclean-election", True)])
def test_a_predicted_cause_speaks_of_commits_too(tmp_path: Path, cause: str, outcome: bool) -> None:
    story = last_coordinator_standing(tmp_path)
    story.lose_commit(acked_s=5, asked_s=25, epoch=2)
    story.predict(f'loss = {{ commits = "some", cause = "{cause}" }}')
    broken = [why for why in story.judge().why if why.startswith("predicted every committed loss to be")]
    assert bool(broken) == outcome


def test_a_group_without_an_acked_commit_showed_nothing(tmp_path: Path) -> None:
    story = last_coordinator_standing(tmp_path)
    story.acked_commits = 0
    story.predict('loss = { commits = "none" }')
    assert "no commit of a group was acked: no group had a commit to lose" in story.judge().why
