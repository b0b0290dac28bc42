"""What own clients were told of their transactions, held against the final log: no miss and no false alarm."""

from __future__ import annotations

from pathlib import Path

import pytest
from own_history import History, marker, records, says, why

from analysis.judge.own_producers import judge_own_producers
from analysis.judge.rules.clients.own_transactions_are_whole import RULE
from ebbtide.record.own_producers import WireFacts
from ebbtide.record.verdict import PropertyResult

SENT = records("a", "b", producer=(7, 0, 0), transactional=True)
NEXT = records("c", producer=(7, 0, 2), transactional=True)


def placed(at: int, *values: str, sequence: int = 0, epoch: int = 0) -> bytes:
    return records(*values, at=at, producer=(7, epoch, sequence), transactional=True)


@pytest.fixture
def history() -> History:
    """A transaction of two records, which were acked."""
    history = History()
    history.traffic.produce(SENT, acks=-1, at=0, transactional_id="copier")
    return history


def judge(history: History, folder: Path) -> PropertyResult:
    return history.check(RULE, folder / "run")


def test_a_committed_transaction_that_consumers_get_is_whole(history: History, tmp_path: Path) -> None:
    history.traffic.end_transaction(commits=True)
    history.final = [placed(0, "a", "b"), marker(2, commits=True)]
    assert judge(history, tmp_path).status == "holds"


def test_a_committed_transaction_of_which_a_record_is_gone_is_torn(history: History, tmp_path: Path) -> None:
    history.traffic.end_transaction(commits=True)
    history.final = [placed(0, "a"), marker(1, commits=True)]
    assert says(judge(history, tmp_path)) == (
        "your transactional producer copier got the answer that 1 transaction with 2 records were committed, of which "
        "read_committed consumers miss 1: 1 is lost; the first is offset 1 of orders-0"
    )


def test_a_committed_transaction_whose_marker_says_abort_is_named(history: History, tmp_path: Path) -> None:
    history.traffic.end_transaction(commits=True)
    history.final = [placed(0, "a", "b"), marker(2, commits=False)]
    assert "miss 2: 2 are aborted; the first is offset 0 of orders-0" in says(judge(history, tmp_path))


def test_an_aborted_transaction_that_consumers_get_is_named(history: History, tmp_path: Path) -> None:
    history.traffic.end_transaction(commits=False)
    history.final = [placed(0, "a", "b"), marker(2, commits=True)]
    assert says(judge(history, tmp_path)) == (
        "your transactional producer copier got the answer that 1 transaction were aborted, of whose 2 records "
        "read_committed consumers get 2; the first is offset 0 of orders-0"
    )


@pytest.mark.parametrize("left", [[placed(0, "a", "b"), marker(2, commits=False)], []], ids=["marked", "gone"])
def test_an_aborted_transaction_is_not_there(history: History, tmp_path: Path, left: list[bytes]) -> None:
    history.traffic.end_transaction(commits=False)
    history.final = left
    assert judge(history, tmp_path).status == "holds"


def test_each_transaction_of_a_producer_has_an_end_of_its_own(history: History, tmp_path: Path) -> None:
    history.traffic.end_transaction(commits=False)
    history.traffic.produce(NEXT, acks=-1, at=3, transactional_id="copier")
    history.traffic.end_transaction(commits=True)
    whole = [placed(0, "a", "b"), marker(2, commits=False), placed(3, "c", sequence=2), marker(4, commits=True)]
    history.final = whole
    assert judge(history, tmp_path).status == "holds"
    history.final = [*whole[:3], marker(4, commits=False)]
    assert "1 transaction with 1 records" in says(history.check(RULE, tmp_path / "aborted"))


@pytest.mark.parametrize("error", [None, 51], ids=["answer lost", "concurrent"])
def test_a_commit_that_was_asked_for_again_counts_as_it_was_answered(
    history: History, tmp_path: Path, error: int | None
) -> None:
    history.traffic.end_transaction(commits=True, error=error)
    history.traffic.end_transaction(commits=True, connection=2)
    history.final = [placed(0, "a"), marker(1, commits=True)]
    assert "miss 1" in says(judge(history, tmp_path))


def test_a_commit_without_an_answer_before_another_incarnation_is_known_to_nobody(
    history: History, tmp_path: Path
) -> None:
    history.traffic.end_transaction(commits=True, error=None)
    history.traffic.begin_anew()
    history.traffic.end_transaction(commits=True)
    history.final = [placed(0, "a", "b"), marker(2, commits=False, epoch=1)]
    assert why(judge(history, tmp_path)) == "no end of a transaction with an acked record was answered"


def test_a_retry_that_stands_elsewhere_is_there_once(history: History, tmp_path: Path) -> None:
    history.traffic.end_transaction(commits=True)
    history.final = [records("of the new leader", epoch=3), placed(1, "a", "b", epoch=0), marker(3, commits=True)]
    assert judge(history, tmp_path).status == "holds"


def test_a_deposed_leader_that_acked_lost_a_part_of_the_transaction(history: History, tmp_path: Path) -> None:
    history.traffic.end_transaction(commits=True)
    history.final = [records("of the new leader", epoch=3), marker(1, commits=True)]
    assert "2 are lost" in says(judge(history, tmp_path))


def test_what_an_unclean_election_took_is_no_violation(history: History, tmp_path: Path) -> None:
    history.traffic.end_transaction(commits=True)
    history.final = [marker(0, commits=True)]
    assert judge(history, tmp_path).status == "violated"
    history.run.led_by(2, epoch=3)
    assert "2 are lost; the first is offset 0 of orders-0; an election outside" in why(
        history.check(RULE, tmp_path / "unclean")
    )


def test_records_below_the_log_start_are_not_missed(history: History, tmp_path: Path) -> None:
    history.traffic.end_transaction(commits=True)
    history.final, history.log_start = [placed(0, "a", "b"), marker(2, commits=True)], 1
    assert judge(history, tmp_path).status == "holds"


def test_a_transaction_without_a_marker_proves_nothing(history: History, tmp_path: Path) -> None:
    history.traffic.end_transaction(commits=True)
    history.final = [placed(0, "a", "b")]
    assert why(judge(history, tmp_path)) == "a transaction of copier has no marker in orders-0"


def test_without_a_final_read_nothing_is_proven(history: History, tmp_path: Path) -> None:
    history.traffic.end_transaction(commits=True)
    history.final = None
    assert why(judge(history, tmp_path)) == "orders-0 was not read at the end: the final read lacks it"


def test_where_an_end_may_not_have_been_read_nobody_is_accused(history: History, tmp_path: Path) -> None:
    history.traffic.end_transaction(commits=True)
    history.facts = WireFacts(unread={"EndTxnRequest version 99": 1})
    assert why(judge(history, tmp_path)).startswith("what your clients sent is not known whole")


def test_a_retried_commit_promises_its_records_to_the_producer_too(history: History, tmp_path: Path) -> None:
    history.traffic.end_transaction(commits=True, error=None)
    history.traffic.end_transaction(commits=True, connection=2)
    found = judge_own_producers(history.record(tmp_path / "run"))
    assert found is not None
    assert [one.lost for one in found.producers] == [2]
