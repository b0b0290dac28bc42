"""Sends of the user's own idempotent producers that the final log has twice: no miss and no false alarm."""

from __future__ import annotations

from pathlib import Path

import pytest
from own_history import History, records

from analysis.judge.rules.clients.own_idempotent_sends_are_once import RULE
from ebbtide.record.verdict import PropertyResult


@pytest.fixture
def history() -> History:
    """An idempotent producer got an ack for two records."""
    history = History()
    history.traffic.produce(records("a", "b", producer=(7, 0, 0)), acks=-1, at=0)
    return history


def judge(history: History, folder: Path) -> PropertyResult:
    return history.check(RULE, folder / "run")


def test_a_send_that_is_there_once_is_as_promised(history: History, tmp_path: Path) -> None:
    history.final = [records("a", "b", producer=(7, 0, 0))]
    assert judge(history, tmp_path).status == "holds"


def test_a_send_that_is_there_twice_is_named_with_both_places(history: History, tmp_path: Path) -> None:
    history.final = [records("a", "b", producer=(7, 0, 0)), records("a", "b", at=2, producer=(7, 0, 0))]
    found = judge(history, tmp_path)
    assert found.status == "violated"
    assert found.evidence[0]["says"] == (
        "your idempotent producer (client.id orders-1) sent 2 records of orders-0 once, and the log has them more than "
        "once, the first at the offsets 0 and 2"
    )


def test_a_retry_that_was_acked_once_and_is_there_twice_is_a_duplicate(tmp_path: Path) -> None:
    history, sent = History(), records("a", producer=(7, 0, 0))
    history.traffic.produce(sent, acks=-1)
    history.traffic.end(1)
    history.traffic.produce(sent, acks=-1, connection=2, at=1)
    history.final = [sent, records("a", at=1, producer=(7, 0, 0))]
    assert judge(history, tmp_path).status == "violated"


@pytest.mark.parametrize("again", [(7, 0, 2), (7, 1, 0), (8, 0, 0)], ids=["sequence", "epoch", "producer"])
def test_one_payload_that_was_sent_twice_is_no_duplicate(
    history: History, tmp_path: Path, again: tuple[int, int, int]
) -> None:
    history.traffic.produce(records("a", producer=again), acks=-1, at=2)
    history.final = [records("a", "b", producer=(7, 0, 0)), records("a", at=2, producer=again)]
    assert judge(history, tmp_path).status == "holds"


def test_one_sequence_with_another_payload_is_no_duplicate(history: History, tmp_path: Path) -> None:
    history.final = [records("a", "b", producer=(7, 0, 0)), records("c", at=2, producer=(7, 0, 0))]
    assert judge(history, tmp_path).status == "holds"


def test_producers_without_sequences_are_not_judged(tmp_path: Path) -> None:
    history = History()
    history.traffic.produce(records("a"), acks=-1, at=0)
    history.final = [records("a"), records("a", at=1)]
    assert judge(history, tmp_path).status == "not-exercised"


def test_producers_that_did_not_come_through_the_ports_are_not_judged(history: History, tmp_path: Path) -> None:
    history.final = [records("x", producer=(9, 0, 0)), records("x", at=1, producer=(9, 0, 0))]
    assert judge(history, tmp_path).status == "holds"


def test_without_a_final_read_nothing_is_proven(history: History, tmp_path: Path) -> None:
    history.final = None
    assert judge(history, tmp_path).status == "unknown"
