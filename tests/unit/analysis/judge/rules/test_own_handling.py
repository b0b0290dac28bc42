"""What an application said it had handled, held against what its group committed: no miss and no false alarm."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from own_history import History, marker, records, says, why

from analysis.judge.rules.clients.own_commits_follow_the_handling import RULE
from ebbtide.record.own_producers import WireFacts
from ebbtide.record.verdict import PropertyResult


@pytest.fixture
def history() -> History:
    """Four records, which a client of the group got."""
    history = History()
    history.final = [records("a", "b", "c", "d")]
    return history


def judge(history: History, folder: Path) -> PropertyResult:
    return history.check(RULE, folder / "run")


def got(history: History, batch: bytes | None = None) -> None:
    history.traffic.fetch(batch or records("a", "b", "c", "d"), high_watermark=4)


def test_records_that_were_handled_before_their_commit_are_as_promised(history: History, tmp_path: Path) -> None:
    got(history)
    history.handle(0, 1, 2, 3)
    history.traffic.commit(4)
    found = judge(history, tmp_path)
    assert (found.status, found.evidence[0]["handled"], found.evidence[0]["twice"]) == ("holds", 4, 0)


def test_a_commit_before_its_records_were_handled_is_named_with_those_that_nobody_handled(
    history: History, tmp_path: Path
) -> None:
    got(history)
    history.handle(0)
    history.traffic.commit(4)
    history.handle(1, 2)
    assert says(judge(history, tmp_path)) == (
        "your group g committed 3 offsets of orders-0 before their records were handled, from offset 1 on; 1 of "
        "these were handled by nobody"
    )


def test_a_commit_of_what_was_handled_so_far_is_as_promised_wherever_the_batch_ends(
    history: History, tmp_path: Path
) -> None:
    got(history)
    history.handle(0, 1)
    history.traffic.commit(2)
    history.handle(2)
    assert judge(history, tmp_path).status == "holds"


@pytest.mark.parametrize("error", [22, None], ids=["refused", "answer lost"])
def test_a_commit_that_no_broker_acked_is_no_accusation(history: History, tmp_path: Path, error: int | None) -> None:
    got(history)
    history.handle(0)
    history.traffic.commit(1)
    history.traffic.commit(4, error=error)
    history.handle(1, 2, 3)
    assert judge(history, tmp_path).status == "holds"


def test_a_record_of_an_aborted_transaction_is_nobodys_to_handle(history: History, tmp_path: Path) -> None:
    aborted = records("x", at=1, producer=(7, 0, 0), transactional=True)
    history.final = [records("a"), aborted, marker(2, commits=False), records("b", at=3)]
    got(history, b"".join(history.final))
    history.handle(0, 3)
    history.traffic.commit(4)
    assert judge(history, tmp_path).status == "holds"


def test_a_lost_record_is_nobodys_to_handle(history: History, tmp_path: Path) -> None:
    got(history)
    history.final = [records("a", "b")]
    history.handle(0, 1)
    history.traffic.commit(4)
    assert judge(history, tmp_path).status == "holds"


def test_a_record_that_a_new_leader_wrote_in_the_place_of_a_lost_one_was_not_committed(
    history: History, tmp_path: Path
) -> None:
    got(history)
    history.handle(0, 1, 2, 3)
    history.traffic.commit(4)
    replaced = records("new", at=3, epoch=3)
    history.final = [records("a", "b", "c"), replaced]
    history.handled = [one for one in history.handled if one[0] < 3]
    history.traffic.fetch(replaced, high_watermark=4, connection=2)
    history.handle(3)
    assert judge(history, tmp_path).status == "holds"


def test_a_fetch_session_that_goes_on_at_another_leader_has_got_the_same_record(
    history: History, tmp_path: Path
) -> None:
    got(history, records("a", "b"))
    history.traffic.end(1)
    history.traffic.fetch(records("c", "d", at=2), high_watermark=4, connection=2)
    history.final = [records("a", "b"), records("c", "d", at=2)]
    history.handle(0, 1, 2)
    history.traffic.commit(4, connection=2)
    assert "committed 1 offset of orders-0" in says(judge(history, tmp_path))


def test_a_record_in_a_cut_batch_was_got_by_nobody(history: History, tmp_path: Path) -> None:
    history.final = [records("a", "b"), records("c", "d", at=2)]
    got(history, records("a", "b") + records("c", "d", at=2)[:-1])
    history.handle(0, 1)
    history.traffic.commit(4)
    assert judge(history, tmp_path).status == "holds"


def test_below_the_first_handled_record_the_group_may_not_have_begun(history: History, tmp_path: Path) -> None:
    got(history)
    history.handle(2, 3)
    history.traffic.commit(4)
    assert judge(history, tmp_path).status == "holds"


def test_offsets_of_a_transaction_are_committed_when_it_ends(history: History, tmp_path: Path) -> None:
    got(history)
    history.traffic.commit_in_transaction(4)
    history.handle(0, 1, 2, 3)
    history.traffic.end_transaction(commits=True)
    assert judge(history, tmp_path).status == "holds"


def test_a_record_whose_results_are_in_the_transaction_may_be_called_handled_after_it(
    history: History, tmp_path: Path
) -> None:
    got(history)
    history.traffic.commit_in_transaction(4)
    history.traffic.end_transaction(commits=True)
    history.handle(0, 1, 2, 3)
    assert judge(history, tmp_path).status == "holds"


def test_a_record_that_a_transaction_committed_and_nobody_handled_is_named(history: History, tmp_path: Path) -> None:
    got(history)
    history.handle(0, 1, 2)
    history.traffic.commit_in_transaction(4)
    history.traffic.end_transaction(commits=True)
    assert "1 of these were handled by nobody" in says(judge(history, tmp_path))


def test_offsets_of_an_aborted_transaction_are_not_committed(history: History, tmp_path: Path) -> None:
    got(history)
    history.handle(0)
    history.traffic.commit(1)
    history.traffic.commit_in_transaction(4)
    history.traffic.end_transaction(commits=False)
    assert judge(history, tmp_path).status == "holds"


def test_records_that_were_handled_twice_are_counted(history: History, tmp_path: Path) -> None:
    got(history)
    history.handle(0, 1, 2, 1, 3)
    history.traffic.commit(4)
    assert judge(history, tmp_path).evidence[0]["twice"] == 1


def test_of_two_groups_each_call_must_name_its_group(history: History, tmp_path: Path) -> None:
    got(history)
    history.handle(0, 1, 2, 3)
    history.traffic.commit(4)
    history.traffic.commit(4, group="audit")
    assert why(judge(history, tmp_path)) == "orders-0 was handled for one of the groups audit, g: pass group=..."
    history.handled = [(offset, at_ns, "g") for offset, at_ns, _ in history.handled]
    assert why(history.check(RULE, tmp_path / "named")) == (
        "no record of orders-0 was handled, and the group audit committed offset 4"
    )


def test_without_a_commit_nothing_is_proven(history: History, tmp_path: Path) -> None:
    got(history)
    history.handle(0)
    assert why(judge(history, tmp_path)).startswith("no group got an ack for a commit")


def test_without_a_final_read_nothing_is_proven(history: History, tmp_path: Path) -> None:
    got(history)
    history.handle(0)
    history.traffic.commit(4)
    history.final, history.facts = None, WireFacts(no_final_read={"orders": "it was deleted"})
    assert why(judge(history, tmp_path)) == "orders-0 was not read at the end: it was deleted"


def test_without_times_only_the_records_that_nobody_handled_are_known(history: History, tmp_path: Path) -> None:
    got(history)
    history.handle(0, 1, 2, 3)
    history.traffic.commit(4)
    history.handled = [(offset, None, None) for offset, *_ in history.handled]
    assert why(judge(history, tmp_path)) == "4 records of orders-0 were handled without a time"
    history.handled = history.handled[:-1]
    assert "1 of these were handled by nobody" in says(history.check(RULE, tmp_path / "less"))


def test_a_test_that_says_nothing_is_not_judged(history: History, tmp_path: Path) -> None:
    got(history)
    history.traffic.commit(4)
    assert msgspec.to_builtins(judge(history, tmp_path))["status"] == "not-exercised"
