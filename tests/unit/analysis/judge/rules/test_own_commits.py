"""What groups of the user's own committed, held against what is served at the end: no miss and no false alarm."""

from __future__ import annotations

from pathlib import Path

import pytest
from own_history import History, why

from analysis.judge.rules.clients.own_commits_are_kept import RULE
from ebbtide.record.own_producers import WireFacts
from ebbtide.record.verdict import PropertyResult


@pytest.fixture
def history() -> History:
    """The group got acks for the offsets 5 and 9."""
    history = History()
    history.traffic.commit(5)
    history.traffic.commit(9)
    return history


def judge(history: History, folder: Path) -> PropertyResult:
    return history.check(RULE, folder / "run")


def test_a_group_that_gets_back_what_it_committed_last_is_as_promised(history: History, tmp_path: Path) -> None:
    history.served = 9
    assert judge(history, tmp_path).status == "holds"


@pytest.mark.parametrize(("served", "has"), [(5, "offset 5"), (None, "no offset")])
def test_a_commit_that_is_gone_is_named(history: History, tmp_path: Path, served: int | None, has: str) -> None:
    history.served = served
    found = judge(history, tmp_path)
    assert found.status == "violated"
    assert found.evidence[0]["says"] == (
        f"your group g got acks for 2 commits of orders-0, the last of offset 9, and its coordinator has {has} at the "
        "end; Kafka promises to keep a commit while one in-sync replica of __consumer_offsets survives"
    )


@pytest.mark.parametrize("error", [22, None], ids=["refused", "answer lost"])
def test_a_commit_that_was_not_acked_may_be_there_or_not(history: History, tmp_path: Path, error: int | None) -> None:
    history.traffic.commit(12, error=error)
    for served, status in ((12, "holds"), (9, "holds"), (5, "violated")):
        history.served = served
        assert history.check(RULE, tmp_path / str(served)).status == status


def test_of_two_commits_at_once_either_may_be_the_last(tmp_path: Path) -> None:
    history = History()
    first = history.traffic.ask_commit(5)
    history.traffic.commit(9, connection=2)
    history.traffic.answer_commit(first)
    for served in (5, 9):
        history.served = served
        assert history.check(RULE, tmp_path / str(served)).status == "holds"


def test_a_group_that_went_back_by_itself_is_as_promised(history: History, tmp_path: Path) -> None:
    history.traffic.commit(2)
    history.served = 2
    assert judge(history, tmp_path).status == "holds"


@pytest.mark.parametrize(
    ("commits", "served", "status"),
    [(True, 9, "violated"), (True, 20, "holds"), (False, 9, "holds"), (False, 20, "violated")],
)
def test_an_offset_of_a_transaction_is_there_if_it_committed(
    history: History, tmp_path: Path, commits: bool, served: int, status: str
) -> None:
    history.traffic.commit_in_transaction(20)
    history.traffic.end_transaction(commits=commits)
    history.served = served
    assert judge(history, tmp_path).status == status


def test_a_transaction_whose_end_got_no_answer_may_have_committed(history: History, tmp_path: Path) -> None:
    history.traffic.commit_in_transaction(20)
    history.traffic.end_transaction(commits=True, error=None)
    for served in (9, 20):
        history.served = served
        assert history.check(RULE, tmp_path / str(served)).status == "holds"


def test_a_marker_may_be_written_after_a_later_commit(history: History, tmp_path: Path) -> None:
    history.traffic.commit_in_transaction(20)
    history.traffic.end_transaction(commits=True)
    history.traffic.commit(21)
    history.served = 20
    assert judge(history, tmp_path).status == "holds"
    history.traffic.commit_in_transaction(22)
    history.traffic.end_transaction(commits=True)
    assert history.check(RULE, tmp_path / "after another end").status == "violated"


def test_an_offset_that_no_client_committed_is_somebody_elses(history: History, tmp_path: Path) -> None:
    history.served = 7
    assert why(judge(history, tmp_path)) == "the group g has the offset 7 of orders-0: not by your clients"


def test_offsets_that_went_with_their_topic_accuse_nobody(history: History, tmp_path: Path) -> None:
    history.final, history.facts = None, WireFacts(no_final_read={"orders": "it was deleted"})
    assert why(judge(history, tmp_path)) == "orders-0 was not read at the end: it was deleted"


def test_a_group_whose_coordinator_did_not_answer_is_unproven(history: History, tmp_path: Path) -> None:
    history.coordinator_answers, history.facts = False, WireFacts(no_final_read={"group g": "it has no coordinator"})
    assert why(judge(history, tmp_path)) == "what the group g has committed is not known: it has no coordinator"


@pytest.mark.parametrize(
    "facts", [WireFacts(unrecorded={"DeleteGroups": 1}), WireFacts(unread={"OffsetCommitRequest version 99": 1})]
)
def test_where_offsets_may_have_gone_otherwise_nobody_is_accused(
    history: History, tmp_path: Path, facts: WireFacts
) -> None:
    history.served, history.facts = None, facts
    assert judge(history, tmp_path).status == "unknown"


def test_a_commit_that_an_unclean_election_took_is_no_violation(history: History, tmp_path: Path) -> None:
    history.served = 5
    history.run.led_by(2, epoch=3)
    said = why(judge(history, tmp_path))
    assert said.startswith("your group g got acks for 2 commits")
    assert "an election outside ISR and ELR" in said


def test_a_group_without_an_acked_commit_is_not_judged(tmp_path: Path) -> None:
    history = History()
    history.traffic.commit(5, error=None)
    assert judge(history, tmp_path).status == "not-exercised"
