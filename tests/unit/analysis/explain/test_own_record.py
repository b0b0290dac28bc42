"""The life of a record of the user's own clients, by what passed through published ports."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from own_history import History, marker, records

from analysis.explain.life import Life
from analysis.explain.own_record import explain_own
from analysis.explain.page import render_life, render_text
from analysis.judge.own_producers import judge_own_producers
from ebbtide.errors import ExitCode
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.manifest import write_manifest
from ebbtide.record.verdict import unfinished_verdict, write_verdict
from harness.cli.main import main

AT = TopicPartition("orders", 0)


@pytest.fixture
def history() -> History:
    """Two records are acked, got by a client, and one of them is handled."""
    history = History()
    history.traffic.produce(records("a", "b"), at=0)
    history.traffic.fetch(records("a", "b"), high_watermark=2)
    history.handle(0)
    history.traffic.commit(2)
    history.final = [records("a", "b")]
    return history


def life_of(history: History, offset: int, folder: Path) -> Life | None:
    record = history.record(folder / "run")
    found = judge_own_producers(record)
    assert found is not None
    verdict = msgspec.structs.replace(unfinished_verdict("run-1"), own_producers=[*found.producers])
    write_verdict(record.folder, verdict)
    return explain_own(record, AT, offset)


def test_a_record_that_is_there_has_its_send_its_ack_its_readers_and_its_commit(
    history: History, tmp_path: Path
) -> None:
    life = life_of(history, 0, tmp_path)
    assert life is not None
    assert (life.headline, life.tone) == ("Your record orders-0:0 is there", "good")
    assert [event.text for event in life.events if event.place.startswith(("wire", "handled"))] == [
        "your producer orders-1 sends it with acks=1",
        "acked at offset 0",
        "client orders-1 gets a batch with it",
        "the test has handled this offset",
        "group g commits offset 2, and so this record",
    ]


def test_a_lost_record_has_what_the_verdict_says_of_its_producer(history: History, tmp_path: Path) -> None:
    history.run.led_by(2, epoch=3, at_ns=10_000)
    history.final = [records("a"), records("other", at=1, epoch=3)]
    life = life_of(history, 1, tmp_path)
    assert life is not None
    assert (life.headline, life.tone) == ("Your record orders-0:1 is lost", "bad")
    told = [reason.text for reason in life.reasons]
    assert "the final read, from offset 0 to 1,000, has a record of leader epoch 3 there" in told
    assert any(text.startswith("your producer (client.id orders-1, acks=1) got acks for 1 record") for text in told)
    assert any("leader 2, leader epoch 3" in event.text for event in life.events)


def test_a_record_of_an_aborted_transaction_is_there_for_nobody(history: History, tmp_path: Path) -> None:
    sent = records("c", at=2, producer=(7, 0, 0), transactional=True)
    history.traffic.produce(sent, acks=-1, at=2, transactional_id="copier")
    history.traffic.end_transaction(commits=False)
    history.final = [records("a", "b"), sent, marker(3, commits=False)]
    life = life_of(history, 2, tmp_path)
    assert life is not None
    assert life.headline == "Your record orders-0:2 is there, and its transaction was aborted"


def test_without_a_place_the_first_lost_record_of_own_clients_is_explained(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history.run.led_by(2, epoch=3, at_ns=10_000)
    history.final = [records("a"), records("other", at=1, epoch=3)]
    record = history.record(tmp_path / "run")
    write_manifest(record.folder, record.manifest)
    found = judge_own_producers(record)
    assert found is not None
    judged = msgspec.structs.replace(unfinished_verdict("run-1"), outcome="contradicted", own_producers=found.producers)
    write_verdict(record.folder, judged)
    assert main(["explain", str(tmp_path / "run")]) == ExitCode.AS_PREDICTED
    assert capsys.readouterr().out.startswith("Your record orders-0:1 is lost\n")


def test_without_a_final_read_nobody_knows(history: History, tmp_path: Path) -> None:
    history.final = None
    life = life_of(history, 0, tmp_path)
    assert life is not None
    assert (life.headline, life.tone) == ("Your record orders-0:0 may be there or lost", "open")


def test_without_replicas_logs_text_and_page_have_no_list_of_replicas(history: History, tmp_path: Path) -> None:
    life = life_of(history, 0, tmp_path)
    assert life is not None
    assert life.unknown == ["the logs of the replicas"]
    assert "Where it is in the end" not in render_text(life)
    page = render_life(life)
    assert "<title>Your record in orders-0</title>" in page
    assert "Where it is in the end" not in page


def test_what_is_folded_stays_beside_its_number(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    life = life_of(history, 0, tmp_path)
    assert life is not None
    text = render_text(life)
    reasons = text.partition("Why\n")[2].partition("\n\n")[0].splitlines()
    assert len(reasons) > 2 * len(life.reasons)
    assert all(line.startswith(("      ", "   ")) and line[6] != " " for line in reasons)


def places(life: Life) -> dict[int, tuple[bool | None, str]]:
    return {place.broker: (place.has_it, place.text) for place in life.places}


def test_the_logs_of_the_replicas_say_where_a_record_is(history: History, tmp_path: Path) -> None:
    history.logs = {1: [(0, 1, 0)], 2: [(0, 0, 0), (1, 1, 3)], 3: []}
    life = life_of(history, 1, tmp_path)
    assert life is not None
    assert places(life) == {
        1: (True, "has a record of leader epoch 0 at this offset"),
        2: (False, "has a record of leader epoch 3 at this offset"),
        3: (False, "does not have it: its log is from offset 0 to 0"),
    }
    assert life.unknown == []
    assert "Where it is in the end (orders-0)" in render_text(life)


def test_a_record_of_another_epoch_may_be_the_lost_one(history: History, tmp_path: Path) -> None:
    history.run.led_by(2, epoch=3, at_ns=10_000)
    history.final = [records("a"), records("other", at=1, epoch=3)]
    history.logs = {1: [(0, 1, 0)], 2: [(0, 0, 0), (1, 1, 3)]}
    life = life_of(history, 1, tmp_path)
    assert life is not None
    assert [has_it for has_it, _ in places(life).values()] == [None, False]
    assert life.unknown == ["whether the copy of broker 1 is this record"]


def test_of_two_records_that_were_acked_at_one_offset_the_lost_one_is_told(history: History, tmp_path: Path) -> None:
    history.run.led_by(2, epoch=3, at_ns=10_000)
    history.traffic.produce(records("other"), at=1, client="orders-2")
    history.traffic.fetch(records("other", at=1, epoch=3), high_watermark=2, connection=2)
    history.final = [records("a"), records("other", at=1, epoch=3)]
    life = life_of(history, 1, tmp_path)
    assert life is not None
    assert (life.headline, life.tone) == ("Your record orders-0:1 is lost", "bad")
    assert [event.text for event in life.events if event.place.startswith("wire")] == [
        "your producer orders-1 sends it with acks=1",
        "acked at offset 1",
        "client orders-1 gets a batch with it",
        "group g commits offset 2, and so this record",
    ]
    told = [reason.text for reason in life.reasons]
    assert "your producer orders-2 got an ack for another record at this offset: it is there" in told


@pytest.mark.parametrize(("group", "is_said"), [(None, True), ("g", True), ("another", False)])
def test_a_record_that_a_group_committed_and_nobody_handled_is_bad(
    group: str | None, is_said: bool, tmp_path: Path
) -> None:
    history = History()
    history.traffic.produce(records("a", "b"), at=0)
    history.traffic.fetch(records("a", "b"), high_watermark=2)
    history.handle(0, group=group)
    history.traffic.commit(2)
    history.final = [records("a", "b")]
    life = life_of(history, 1, tmp_path)
    assert life is not None
    assert (life.headline, life.tone) == (
        ("Your record orders-0:1 is there; group g committed it, and nobody handled it", "bad")
        if is_said
        else ("Your record orders-0:1 is there", "good")
    )


def test_an_offset_where_no_own_client_was_is_somebody_elses(history: History, tmp_path: Path) -> None:
    assert life_of(history, 99, tmp_path) is None
