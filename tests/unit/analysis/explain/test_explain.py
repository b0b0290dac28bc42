"""The life of one record: what became of it, the evidence with its places, and the reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judge_records import Story, last_replica_standing, ns
from records import as_record

from analysis.explain.life import Life, explain
from analysis.explain.page import render_life
from analysis.explain.subject import first_lost_subject, subject_at, subject_of_value
from analysis.report.pages import page_templates
from ebbtide.errors import UsageError
from ebbtide.journal.payload import value_in_words
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import FOREIGN, FinalOffsets, WatchFacts
from ebbtide.record.tables import ANOMALY_SCHEMA
from ebbtide.record.verdict import Verdict, unfinished_verdict, write_verdict
from harness.cli.main import main

T_0 = TopicPartition("t", 0)


def send(story: Story, value: int, *, at: int | None, **columns: Any) -> None:
    """Add a send at 4 s that was acked at 5 s, with acks=all."""
    row = {"producer": 1, "sequence": value, "acks": -1, "status": "acked", "error": None, "txn": None}
    row |= {"txn_outcome": None, "sent_ns": ns(4), "done_ns": ns(5)}
    story.tables["sends"].append({"topic": "t", "partition": 0, "value": value, "offset": at, **row, **columns})


def read(story: Story, value: int | None, *, at: int, consumer: int = 999) -> None:
    """Add a row of a consumer at 40 s; the consumer 999 is the final read."""
    row = {"session": 1, "prev_offset": None, "leader_epoch": 0, "isolation": "read_uncommitted", "polled_ns": ns(40)}
    story.tables["polls"].append(
        {"topic": "t", "partition": 0, "offset": at, "value": value, "consumer": consumer, **row}
    )


def finish(story: Story, *anomalies: dict[str, Any], end: int = 1000) -> Path:
    """Judge the record, and write its anomalies; the final log ends at `end`."""
    story.change(final_offsets={"t-0": FinalOffsets(log_start=0, high_watermark=end)})
    write_verdict(RecordFolder(story.record), story.judge())
    if anomalies:
        (story.record / "anomalies").mkdir()
        table = pa.Table.from_pylist(list(anomalies), schema=ANOMALY_SCHEMA)
        pq.write_table(table, story.record / "anomalies" / "part-0.parquet")
    return story.record


def anomaly(kind: str, value: int, offset: int | None, details: str = "{}") -> dict[str, Any]:
    return {"kind": kind, "topic": "t", "partition": 0, "offset": offset, "value": value, "details": details}


def healthy(record: Path) -> Story:
    story = Story(record)
    story.state(1)
    story.log(1, (0, 0, 9))
    story.log(2, (0, 0, 9))
    return story


def life_of(record: Path, value: int) -> Life:
    return explain(as_record(record), subject_of_value(as_record(record), value))


@pytest.fixture
def lost(tmp_path: Path) -> Path:
    """A record in which 1,000 records were lost with the last member of the ISR."""
    story = last_replica_standing(tmp_path)
    for value in range(3):
        send(story, value, at=value)
    story.hw(6, 1, 0, 1000)
    story.hw(22, 1, 2, 0)
    details = f'{{"acks":-1,"committed":true,"passed_by_hw":true,"sent_ns":{ns(4)},"done_ns":{ns(5)}}}'
    return finish(story, anomaly("lost", 1, 1, details), end=0)


def test_a_lost_record_has_its_election_its_cause_and_its_clause(lost: Path) -> None:
    life = life_of(lost, 1)
    assert life.headline == (
        "The record t-0:1 (record 1 of producer 0) is lost (committed): last-replica-standing, allowed without ELR."
    )
    assert life.tone == "bad"
    reasons = [reason.text for reason in life.reasons]
    assert any("this is the election that lost it" in one.lower() for one in reasons), reasons
    assert "It was committed: it was acked with acks=all, and the HW had passed it." in reasons


@pytest.mark.parametrize(
    ("end", "led_between", "finding"),
    [
        (0, False, "this leader did not have the record when it was elected."),
        (500, False, "the run left no log of that moment, which would say whether this leader had it."),
        (None, False, "the run left no log of that moment, which would say whether this leader had it."),
        (0, True, "the run left no log of that moment, which would say whether this leader had it."),
    ],
)
def test_the_proof_of_a_lost_disk_says_that_the_next_leader_had_no_record(
    tmp_path: Path, end: int | None, led_between: bool, finding: str
) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.state(11, isr=[1])
    send(story, 1, at=1)
    story.power_loss(12, 1, end=end)
    story.state(15, leader=2 if led_between else -1)
    story.state(21, leader=1)
    reasons = [one.text for one in life_of(finish(story), 1).reasons if one.text.startswith("Leader epoch 2, ")]
    assert [text.partition(": ")[2] for text in reasons] == [finding]


def test_what_people_noted_during_a_watch_proves_nothing(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    assert story.steps
    send(story, 1, at=1)
    story.change(runtime=FOREIGN, watch=WatchFacts(clock_distance_ms=3))
    details = f'{{"acks":-1,"committed":true,"passed_by_hw":true,"sent_ns":{ns(4)},"done_ns":{ns(5)}}}'
    life = life_of(finish(story, anomaly("lost", 1, 1, details), end=0), 1)
    assert "nobody recorded what happened to this cluster, so whether a disk lost data is not known" in life.unknown
    assert not [event for event in life.events if event.kind in ("disk", "step")]
    noted = [event.text for event in life.events if event.kind == "mark"]
    assert len(noted) == len(story.steps)
    assert all(text.endswith("nothing proves it") for text in noted)


def test_the_events_are_in_the_order_of_time_and_each_has_a_place(lost: Path) -> None:
    events = life_of(lost, 1).events
    assert [event.at_ns for event in events] == sorted(event.at_ns for event in events)
    assert all(event.place for event in events)
    texts = [event.text for event in events]
    assert "the log of broker 1 ends at offset 0, before at 1,000: it has lost offset 1" in texts
    assert "the HW is seen above its offset: broker 1 serves 1,000, leader epoch 0" in texts
    assert "the HW is not above its offset any more: broker 1 serves 0, leader epoch 2" in texts


def test_changes_of_one_time_are_in_the_order_of_the_metadata_log(tmp_path: Path) -> None:
    story = healthy(tmp_path)
    send(story, 1, at=1)
    for broker in (3, 2):
        story.broker(20, broker, "fenced")
        story.state(20, isr=[one for one in (1, 2) if one < broker])
    events = [one for one in life_of(finish(story), 1).events if one.kind in ("partition", "broker")]
    assert [one.kind for one in events[-4:]] == ["broker", "partition", "broker", "partition"]


def test_a_place_names_the_row_that_has_the_evidence(lost: Path) -> None:
    place = next(event.place for event in life_of(lost, 2).events if event.kind == "send")
    assert place == "sends.parquet, row 2"
    assert pq.read_table(lost / "sends.parquet").to_pylist()[2]["value"] == 2


def test_without_a_name_the_first_lost_record_is_explained(lost: Path) -> None:
    subject = first_lost_subject(as_record(lost))
    assert subject is not None
    assert (subject.at, subject.offset) == (T_0, 0)


def test_a_safe_record_is_where_the_final_read_and_the_replicas_have_it(tmp_path: Path) -> None:
    story = healthy(tmp_path)
    send(story, 5, at=5)
    read(story, 5, at=5)
    life = life_of(finish(story), 5)
    who = "The record t-0:5 (record 5 of producer 0)"
    assert life.headline == f"{who} is safe: it was acked, and it is in the final log."
    assert [(place.broker, place.has_it) for place in life.places] == [(1, True), (2, True), (3, None)]
    assert "the log of broker 3 after the run" in life.unknown
    had_it = "Of the 2 replicas whose logs were read in the end, brokers 1, 2 had it."
    assert had_it in [reason.text for reason in life.reasons]
    left_out = life_of(finish(story, anomaly("passed-over", 5, 5)), 5).headline
    assert left_out.endswith("but no member of a group got it, though it had been promised the record.")


@pytest.mark.parametrize(
    ("columns", "kind", "headline"),
    [
        ({"status": "failed", "done_ns": ns(5)}, None, "was never acked (its send failed), so it is no loss"),
        ({"status": "unknown", "done_ns": None}, None, "was never acked (its send has an unknown outcome)"),
        ({"acks": 0}, None, "was sent with acks=0, which no broker acks; it is not in the final log"),
        (
            {"txn": 1, "txn_outcome": "aborted", "status": "failed", "error": "PRODUCER_FENCED", "done_ns": ns(5)},
            None,
            "was never acked (its send failed: PRODUCER_FENCED), and belongs to an aborted transaction",
        ),
        ({"txn": 1, "txn_outcome": "aborted"}, None, "belongs to an aborted transaction: it does not count."),
        ({"txn": 1, "txn_outcome": "aborted"}, "aborted-read", "read_committed read it, which is a fault"),
        ({}, "duplicate", "is duplicated: the partition has it at more than one offset"),
        ({}, None, "was acked and is not in the final read; the judge cannot say that it is lost"),
    ],
)
def test_the_headline_says_what_became_of_the_record(
    columns: dict[str, Any], kind: str | None, headline: str, tmp_path: Path
) -> None:
    story = Story(tmp_path)
    story.state(1)
    acked = columns.get("status", "acked") == "acked"
    send(story, 7, at=7 if acked else None, **columns)
    record = finish(story, *([anomaly(kind, 7, 7)] if kind else []))
    assert headline in life_of(record, 7).headline


def test_elections_since_do_not_matter_for_a_record_that_nobody_acked_or_has(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    send(story, 7, at=None, status="failed", done_ns=ns(5))
    reasons = [one.text for one in life_of(finish(story), 7).reasons]
    assert not any("eader epoch" in one for one in reasons), reasons


@pytest.mark.parametrize(("idempotent", "tone"), [("true", "bad"), ("false", "open")])
def test_a_duplicate_is_a_fault_only_if_its_producer_was_idempotent(idempotent: str, tone: str, tmp_path: Path) -> None:
    story = healthy(tmp_path)
    send(story, 5, at=5)
    row = next(one for one in story.tables["replicas"] if one["value"] == 5)
    story.tables["replicas"].append({**row, "offset": 9})
    life = life_of(finish(story, anomaly("duplicate", 5, 5, f'{{"idempotent":{idempotent}}}')), 5)
    assert life.tone == tone
    assert "has it at offset 5 and again at 9" in " ".join(place.text for place in life.places)


def test_a_record_below_the_final_log_start_is_not_called_lost(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    send(story, 7, at=7)
    record = finish(story)
    story.change(final_offsets={"t-0": FinalOffsets(log_start=8, high_watermark=1000)})
    story.write()
    assert "below the start of the final log" in life_of(record, 7).headline


def test_an_unknown_value_and_an_unknown_offset_are_refused_with_what_is_known(lost: Path) -> None:
    with pytest.raises(UsageError, match="no producer of this run sent a record with this value"):
        subject_of_value(as_record(lost), 4711)
    with pytest.raises(UsageError) as refused:
        subject_at(as_record(lost), T_0, 1500)
    assert refused.value.allowed == "t-0:0 to t-0:999, where brokers acked records"


@pytest.mark.parametrize(
    ("topic", "partition", "what", "allowed"),
    [
        ("u", 0, "this run has no topic u", "new-0, new-1, t-0"),
        ("news", 0, "this run has no topic news", "new-0, new-1, t-0 (did you mean 'new'?)"),
        ("t", 7, "the topic t of this run has no partition 7", "t-0"),
        ("new", 2, "the topic new of this run has no partition 2", "new-0, new-1"),
        ("new", 1, "nobody sent, acked or read a record at this offset", "no offset was acked"),
    ],
)
def test_a_partition_that_the_run_does_not_have_is_refused_with_those_that_it_has(
    topic: str, partition: int, what: str, allowed: str, tmp_path: Path
) -> None:
    story = Story(tmp_path)
    story.state(1)
    # Steps created them: the manifest has only the topics of the scenario.
    story.state(2, topic="new")
    story.state(3, topic="new", partition=1)
    story.state(4, topic="__consumer_offsets")
    send(story, 1, at=1)
    with pytest.raises(UsageError) as refused:
        subject_at(as_record(finish(story)), TopicPartition(topic, partition), 1)
    assert (refused.value.what, refused.value.allowed) == (what, allowed)
    assert refused.value.got == f"{topic}-{partition}:1"


@pytest.mark.parametrize("at", [TopicPartition("t", 7), TopicPartition("new", 0)])
def test_without_a_metadata_log_a_partition_is_not_said_to_be_missing(at: TopicPartition, tmp_path: Path) -> None:
    story = Story(tmp_path)
    send(story, 1, at=1)
    with pytest.raises(UsageError) as refused:
        subject_at(as_record(finish(story)), at, 1)
    assert refused.value.what == (
        f"it is not known whether this run had the partition {at}: the record has no metadata log"
    )
    assert refused.value.allowed == "t-0"


def test_a_value_is_shown_as_people_count_records() -> None:
    assert value_in_words(1_099_511_628_327) == "record 551 of producer 1"
    example = {"offset": 7, "value": 3 * 2**40 + 1_234, "count": 10**14}
    shown = page_templates("analysis.report").filters["json_line"](example)
    assert shown == '{"offset":7,"value":"record 1,234 of producer 3","count":100000000000000}'


def test_the_page_escapes_what_others_named(lost: Path) -> None:
    manifest = (lost / "manifest.json").read_text().replace("hand-made", "<script>alert(1)</script>")
    (lost / "manifest.json").write_text(manifest)
    page = render_life(life_of(lost, 1))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_the_command_prints_the_life_and_starts_no_spark(
    lost: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analysis.spark.session.session", lambda *_, **__: pytest.fail("Spark was started"))
    assert main(["explain", str(lost), "t-0:1", "--html", str(lost / "life.html")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("The record t-0:1 (record 1 of producer 0) is lost (committed)")
    assert printed.index("\nWhy\n") < printed.index("\nWhat happened")  # the answer, and then the timeline
    assert (lost / "life.html").is_file()


def test_without_the_metadata_log_nobody_says_that_no_leader_was_elected(tmp_path: Path) -> None:
    story = healthy(tmp_path)
    story.change(runtime=FOREIGN, watch=WatchFacts(clock_distance_ms=3))
    send(story, 5, at=5)
    read(story, 5, at=5)
    record = finish(story)
    (record / "partitions.parquet").unlink()
    reasons = {one.text: one.place for one in life_of(record, 5).reasons}
    text = "Which leaders were elected since it was sent is not known: the record has no metadata log."
    assert reasons[text] == "no partitions.parquet"
    assert not any("No leader was elected" in one for one in reasons)
    assert any(one.startswith("At the end of the watch, the final read") for one in reasons)
    assert not any("healed" in one for one in reasons)


def test_a_run_that_was_not_judged_is_refused(lost: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_verdict(RecordFolder(lost), unfinished_verdict("run-1"))
    for words in ([], ["--json"], ["t-0:1"]):
        assert main(["explain", str(lost), *words]) == 4
        out, error = capsys.readouterr()
        assert "no acked record is lost" not in out
        assert "the record has not been judged" in error
        assert f"ebbtide analyze {lost}" in error


def test_where_losses_are_not_decided_none_is_said_to_be_lost(lost: Path, capsys: pytest.CaptureFixture[str]) -> None:
    undecided = Verdict(run_id="run-1", outcome="inconclusive", why=["the run failed: no leader"])
    write_verdict(RecordFolder(lost), undecided)
    assert main(["explain", str(lost)]) == 2
    printed = capsys.readouterr().out
    assert "it is not known whether an acked record is lost" in printed
    assert "the run failed: no leader" in printed


def test_a_copy_whose_log_is_not_in_the_record_is_not_known(tmp_path: Path) -> None:
    story = healthy(tmp_path)
    story.change(raw_omitted=("broker-3/t-0",))
    story.log(3, (0, 0, 9))
    for row in [row for row in story.tables["replicas"] if row["broker"] == 3]:
        row.update(partition=1, value=None)
    send(story, 5, at=5)
    read(story, 5, at=5)
    assert [place.has_it for place in life_of(finish(story), 5).places][-1] is None
