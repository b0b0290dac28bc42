"""Own producers are judged by their traffic: made histories with planted faults, no miss and no false alarm."""

from __future__ import annotations

from pathlib import Path

import pytest
from client_frames import TOPIC
from own_history import History, records
from records import RecordBuilder, as_record

from analysis.judge.own_producers import OwnProducersJudged, judge_own_producers
from ebbtide.record.own_producers import OwnProducer, WireFacts


@pytest.fixture
def history() -> History:
    return History()


def judge(history: History, folder: Path) -> OwnProducersJudged:
    found = judge_own_producers(history.record(folder))
    assert found is not None
    return found


def losses(judged: OwnProducersJudged) -> list[OwnProducer]:
    assert judged.unproven == []
    return [one for one in judged.producers if one.lost]


def test_records_that_are_all_there_are_no_loss(history: History, tmp_path: Path) -> None:
    history.traffic.produce(records("a", "b"), at=0)
    history.final = [records("a", "b")]
    judged = judge(history, tmp_path / "run")
    assert losses(judged) == []
    assert sum(one.acked for one in judged.producers) == 2


def test_the_loss_of_an_acks_1_producer_names_it_and_the_leader_that_lacked_its_records(
    history: History, tmp_path: Path
) -> None:
    history.traffic.produce(records("a", "b", "c"), at=0)
    history.run.led_by(2, epoch=3, at_ns=10_000)
    history.final = [records("a"), records("other", at=1, epoch=3)]
    (lost,) = losses(judge(history, tmp_path / "run"))
    assert (lost.acked, lost.lost, lost.first_offset, lost.last_offset) == (3, 2, 1, 2)
    assert str(lost) == (
        "your producer (client.id orders-1, acks=1) got acks for 2 records of orders-0 that are lost: the leader of "
        "epoch 3 (broker 2) did not have them; Kafka allows that with acks=1; with acks=all it waits for the in-sync "
        "replicas"
    )


def test_of_several_elections_the_one_is_named_whose_leader_wrote_where_the_records_were(
    history: History, tmp_path: Path
) -> None:
    history.traffic.produce(records("a", "b"), at=0)
    history.run.led_by(2, epoch=3, at_ns=10_000).led_by(3, epoch=4, at_ns=11_000)
    history.final = [records("a"), records("other", at=1, epoch=4)]
    (lost,) = losses(judge(history, tmp_path / "run"))
    assert lost.why is not None
    assert lost.why.startswith("the leader of epoch 4 (broker 3) did not have them")


def test_a_deposed_leader_that_acked_after_the_election_is_seen_by_what_stands_at_the_offset(
    history: History, tmp_path: Path
) -> None:
    history.run.led_by(2, epoch=3, at_ns=1)
    history.traffic.now = 5_000
    history.traffic.produce(records("a"), at=0)
    history.final = [records("other", epoch=3)]
    (lost,) = losses(judge(history, tmp_path / "run"))
    assert lost.why is not None
    assert lost.why.startswith("the leader of epoch 3 (broker 2) wrote another record at offset 0")


def test_a_loss_with_acks_all_is_committed(history: History, tmp_path: Path) -> None:
    history.traffic.produce(records("a"), acks=-1, at=0)
    judged = judge(history, tmp_path / "run")
    assert (judged.lost(committed=True), judged.lost(committed=False)) == (1, 0)
    assert "acks=all" in str(next(one for one in judged.producers if one.lost))


def test_a_send_whose_answer_was_lost_was_promised_to_nobody(history: History, tmp_path: Path) -> None:
    history.traffic.produce(records("kept"), at=0)
    history.traffic.produce(records("a"))
    history.traffic.end(1)
    history.final = [records("kept")]
    assert losses(judge(history, tmp_path / "run")) == []


def test_a_retry_is_judged_once_and_is_lost_once(history: History, tmp_path: Path) -> None:
    sent = records("a", producer=(7, 0, 0))
    history.traffic.produce(sent)
    history.traffic.end(1)
    history.traffic.produce(sent, connection=2, at=0)
    assert [(one.acked, one.lost) for one in losses(judge(history, tmp_path / "run"))] == [(1, 1)]


def test_one_payload_sent_twice_counts_twice_and_a_lost_one_is_not_hidden_by_the_other(
    history: History, tmp_path: Path
) -> None:
    history.traffic.produce(records("a"), at=0)
    history.traffic.produce(records("a"), at=1)
    history.final = [records("a")]
    assert [(one.acked, one.lost) for one in losses(judge(history, tmp_path / "run"))] == [(2, 1)]


def test_a_record_at_another_offset_is_not_lost(history: History, tmp_path: Path) -> None:
    history.traffic.produce(records("a"), at=0)
    history.final = [records("other"), records("a", at=1)]
    assert losses(judge(history, tmp_path / "run")) == []


def test_a_record_of_an_aborted_transaction_was_promised_to_nobody(history: History, tmp_path: Path) -> None:
    history.traffic.produce(records("kept"), at=0)
    history.traffic.produce(records("a", producer=(7, 0, 0)), acks=-1, at=1, transactional_id="copier")
    history.traffic.end_transaction(commits=False)
    history.final = [records("kept")]
    assert losses(judge(history, tmp_path / "run")) == []


def test_a_record_of_a_committed_transaction_was_promised(history: History, tmp_path: Path) -> None:
    history.traffic.produce(records("a", producer=(7, 0, 0)), acks=-1, at=0, transactional_id="copier")
    history.traffic.end_transaction(commits=True)
    assert [one.lost for one in losses(judge(history, tmp_path / "run"))] == [1]


def test_acks_0_alone_proves_nothing(history: History, tmp_path: Path) -> None:
    history.traffic.produce(records("a"), acks=0)
    assert judge(history, tmp_path / "run").unproven == [
        "no producer got an ack through the published ports: there is nothing of yours to judge"
    ]


def test_a_group_that_only_commits_is_something_to_judge(history: History, tmp_path: Path) -> None:
    history.traffic.commit(1)
    assert judge(history, tmp_path / "run").unproven == []


def test_a_partition_without_a_final_read_is_unproven_with_the_reason(history: History, tmp_path: Path) -> None:
    history.traffic.produce(records("a"), at=0)
    history.final, history.facts = None, WireFacts(no_final_read={"orders-0": "it has no leader"})
    judged = judge(history, tmp_path / "run")
    assert (judged.unproven, judged.producers) == (["orders-0 was not read at the end: it has no leader"], [])


def test_records_below_the_log_start_are_unproven_and_not_lost(history: History, tmp_path: Path) -> None:
    history.traffic.produce(records("a", "b"), at=0)
    history.final, history.log_start = [records("b", at=1)], 1
    judged = judge(history, tmp_path / "run")
    assert not any(one.lost for one in judged.producers)
    assert judged.unproven == ["1 acked record of orders-0 below the log start 1"]


def test_a_compacted_topic_is_unproven(history: History, tmp_path: Path) -> None:
    history.traffic.produce(records("a"), at=0)
    history.run.compacted(TOPIC)
    assert judge(history, tmp_path / "run").unproven == [
        "orders is compacted: which of its records were lost is not known"
    ]


def test_a_topic_that_was_deleted_and_made_again_is_unproven(history: History, tmp_path: Path) -> None:
    history.traffic.produce(records("a"), acks=-1, at=0)
    history.topic_ids["another"] = TOPIC
    judged = judge(history, tmp_path / "run")
    assert not any(one.lost for one in judged.producers)
    assert judged.unproven == ["orders was deleted and made again: which of its records were lost is not known"]


@pytest.mark.parametrize(
    "facts",
    [WireFacts(why_incomplete="the relay ended"), WireFacts(unread={"ProduceRequest version 99": 1})],
    ids=["table", "frame"],
)
def test_what_could_not_be_read_is_unproven(history: History, tmp_path: Path, facts: WireFacts) -> None:
    history.traffic.produce(records("a"), at=0)
    history.final, history.facts = [records("a")], facts
    (why,) = judge(history, tmp_path / "run").unproven
    assert why.startswith("what your clients sent is not known")


def test_a_run_without_published_ports_has_no_own_producers(tmp_path: Path) -> None:
    assert judge_own_producers(as_record(RecordBuilder().send(1).write(tmp_path / "run"))) is None
